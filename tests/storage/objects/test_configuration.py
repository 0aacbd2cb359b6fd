"""How an object store is reached: which setting wins, what the environment says, and when credentials are renewed."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import pytest
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server

from esker.errors import InvalidInput, StorageFailed, Unsupported
from esker.ports.credentials import StorageCredentials
from esker.storage.objects.configuration import ObjectConfiguration, check_names
from esker.storage.objects.make_store import make_store
from esker.storage.objects.object_storage import ObjectStorage

pytest.importorskip("obstore", reason="make test installs it")

KEYS = {"s3.access-key-id": "ours", "s3.secret-access-key": "hidden"}
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "env-key",
    "AWS_SECRET_ACCESS_KEY": "env-secret",
    "AWS_SESSION_TOKEN": "env-token",
    "AWS_REGION": "eu-central-1",
}


def test_properties_win_over_the_environment() -> None:
    found = ObjectConfiguration.of({"s3.region": "eu-west-1"}, ENVIRONMENT).settings("s3")
    assert (found["s3.region"], found["s3.access-key-id"]) == ("eu-west-1", "env-key")


def test_a_key_is_never_used_with_the_token_of_another_place() -> None:
    found = ObjectConfiguration.of(KEYS, ENVIRONMENT).settings("s3")
    assert found == {**KEYS, "s3.region": "eu-central-1"}


def test_vended_credentials_win_over_all() -> None:
    vended = StorageCredentials(prefix="s3://b/t", config={"s3.access-key-id": "v", "s3.secret-access-key": "w"})
    configuration = ObjectConfiguration.of({**KEYS, "s3.endpoint": "http://here"}, ENVIRONMENT).with_vended([vended])
    assert configuration.settings("s3", configuration.vended_for("s3://b/t/data/a")) == {
        "s3.access-key-id": "v",
        "s3.secret-access-key": "w",
        "s3.endpoint": "http://here",
        "s3.region": "eu-central-1",
    }


def test_the_longest_prefix_applies() -> None:
    some = [StorageCredentials(prefix=prefix, config={}) for prefix in ("s3", "s3://b/", "s3://b/t", "s3://b/t/data/")]
    configuration = ObjectConfiguration().with_vended(some)
    prefixes = {
        location: getattr(configuration.vended_for(location), "prefix", None)
        for location in ("s3://b/t/data/a", "s3a://b/t/metadata/a", "s3://b/u", "s3://c/t", "gs://b/t")
    }
    assert list(prefixes.values()) == ["s3://b/t/data/", "s3://b/t", "s3://b/", "s3", None]


def test_the_client_properties_are_those_of_s3_too() -> None:
    found = ObjectConfiguration.of({"client.region": "eu-west-1", "client.access-key-id": "k"}, {}).settings("s3")
    assert found == {"s3.region": "eu-west-1", "s3.access-key-id": "k"}


def test_a_profile_gives_keys_region_and_endpoint(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = AK\naws_secret_access_key = SK\n")
    (tmp_path / "config").write_text("[profile work]\nregion = eu-north-1\nendpoint_url = http://127.0.0.1:1\n")
    files = {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
    }
    for configuration in (
        ObjectConfiguration.of({}, {**files, "AWS_PROFILE": "work"}),
        ObjectConfiguration.of({"s3.profile-name": "work"}, files),
    ):
        store = make_store(configuration, "s3://bucket/a")
        assert (store.config["region"], store.config["endpoint"]) == ("eu-north-1", "http://127.0.0.1:1")
        assert store.credential_provider()["access_key_id"] == "AK"
    with pytest.raises(InvalidInput, match="cannot use the AWS profile nobody"):
        make_store(ObjectConfiguration.of({"s3.profile-name": "nobody"}, files), "s3://bucket/a")


def test_addresses_of_buckets() -> None:
    def style(properties: dict[str, str], place: str = "s3://bucket/a") -> tuple[object, object]:
        config = make_store(ObjectConfiguration.of({**KEYS, **properties}, {}), place).config
        return config.get("endpoint"), str(config["virtual_hosted_style_request"]).lower() == "true"

    assert style({}) == (None, True)
    assert style({}, "s3://with.dots/a") == (None, False)
    assert style({"s3.path-style-access": "true"}) == (None, False)
    assert style({"s3.endpoint": "http://minio:9000/"}) == ("http://minio:9000", False)
    assert style({"s3.endpoint": "https://host", "s3.path-style-access": "false"}) == ("https://bucket.host", True)
    assert style({"s3.endpoint": "https://host", "s3.force-virtual-addressing": "true"})[1] is True


def test_only_a_named_http_endpoint_is_reached_without_encryption() -> None:
    def allowed(properties: dict[str, str]) -> object:
        return make_store(ObjectConfiguration.of({**KEYS, **properties}, {}), "s3://bucket/a").client_options[
            "allow_http"
        ]

    assert [str(allowed({})).lower(), str(allowed({"s3.endpoint": "http://minio"})).lower()] == ["false", "true"]


@pytest.mark.parametrize(
    ("location", "properties", "expected"),
    [
        ("gs://bucket/a", {"gcs.oauth2.token": "t"}, {"token": "t"}),
        ("abfss://box@acct.dfs.core.windows.net/a", {"adls.account-key": "aGk="}, {"access_key": "aGk="}),
        ("az://box/a", {"adls.account-name": "acct", "adls.sas-token": "?sig=1"}, {"sas_token": "sig=1"}),
        (
            "abfs://box@acct.dfs.core.windows.net/a",
            {"adls.sas-token.acct.dfs.core.windows.net": "sig=2", "adls.sas-token.other": "sig=3"},
            {"sas_token": "sig=2"},
        ),
        (
            "wasbs://box@acct.blob.core.windows.net/a",
            {"adls.connection-string": "AccountName=acct;AccountKey=aGk="},
            {"access_key": "aGk="},
        ),
    ],
)
def test_other_clouds_take_their_credentials(
    location: str, properties: dict[str, str], expected: dict[str, str]
) -> None:
    store = make_store(ObjectConfiguration.of(properties, {}), location)
    assert store.credential_provider() == {**expected, "expires_at": None}


def test_an_azure_container_needs_an_account() -> None:
    with pytest.raises(InvalidInput, match="name the account, as in abfss://box@account"):
        make_store(ObjectConfiguration.of({}, {}), "az://box/a")


def test_half_a_key_is_refused() -> None:
    with pytest.raises(InvalidInput, match="go together"):
        make_store(ObjectConfiguration.of({"s3.access-key-id": "k"}, {}), "s3://bucket/a")


def test_remote_signing_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="only a REST catalog can sign requests") as raised:
        make_store(ObjectConfiguration.of({"s3.remote-signing-enabled": "true"}, {}), "s3://bucket/a")
    assert raised.value.feature == "remote signing"


def test_a_typing_error_in_a_name_is_noticed() -> None:
    check_names({"s3.endpoint": "x", "adls.sas-token.acct": "x", "warehouse": "x"})
    with pytest.raises(InvalidInput, match=r"there is no such property; did you mean s3\.access-key-id\?"):
        check_names({"s3.acces-key-id": "x"})


def test_a_number_that_is_none_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"cannot use s3\.retry\.num-retries: 'many' is not a number"):
        make_store(ObjectConfiguration.of({**KEYS, "s3.retry.num-retries": "many"}, {}), "s3://bucket/a")


class Renewals:
    """A catalog that vends a key which expires at once, and then the right one."""

    def __init__(self, server: S3Server, prefix: str) -> None:
        self.calls = 0
        self._prefix = prefix

    def __call__(self) -> list[StorageCredentials]:
        self.calls += 1
        return [vended(self._prefix, ACCESS_KEY, in_ms=3_600_000)]


def vended(prefix: str, key: str, *, in_ms: int) -> StorageCredentials:
    config = {"s3.access-key-id": key, "s3.secret-access-key": SECRET_KEY, "s3.session-token": "t"}
    return StorageCredentials(prefix=prefix, config=config, expires_at_ms=int(time.time() * 1000) + in_ms)


def test_vended_credentials_are_renewed_before_they_expire(s3: S3Server, bucket: str) -> None:
    renew = Renewals(s3, bucket)
    configuration = ObjectConfiguration.of({"s3.endpoint": s3.endpoint}, {})
    storage = ObjectStorage(configuration.with_vended([vended(bucket, "old", in_ms=60_000)], renew))
    for number in range(3):
        storage.write_new(f"{bucket}/{number}", b"x")
    assert renew.calls == 1


def test_a_copy_for_a_worker_has_the_credentials_of_the_moment(s3: S3Server, bucket: str) -> None:
    configuration = ObjectConfiguration.of({"s3.endpoint": s3.endpoint}, {})
    storage = ObjectStorage(
        configuration.with_vended(
            [vended(bucket, "key", in_ms=3_600_000)], refresh=lambda: [vended(bucket, "new", in_ms=1)]
        )
    )
    copy: ObjectStorage = pickle.loads(pickle.dumps(storage))
    copy.write_new(f"{bucket}/a", b"x")
    assert storage.exists(f"{bucket}/a")
    assert copy.configuration.refresh is None


def test_credentials_that_cannot_be_renewed_are_a_failure_of_the_store(s3: S3Server, bucket: str) -> None:
    def fail() -> list[StorageCredentials]:
        raise OSError("the catalog is gone, said hidden-secret")

    configuration = ObjectConfiguration.of({"s3.endpoint": s3.endpoint, "s3.retry.num-retries": "0"}, {})
    storage = ObjectStorage(configuration.with_vended([vended(bucket, "old", in_ms=10)], fail))
    with pytest.raises(StorageFailed) as raised:
        storage.read(f"{bucket}/a")
    assert "hidden-secret" not in str(raised.value)
