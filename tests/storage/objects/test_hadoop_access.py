"""The settings of Hadoop's file systems: made from the configuration of Esker's own client, and never shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from esker.errors import InvalidInput
from esker.ports.credentials import StorageCredentials
from esker.ports.storage import hadoop_file
from esker.storage.choose import storage_for
from esker.storage.local import LocalStorage
from esker.storage.memory import MemoryStorage
from esker.storage.objects.configuration import ObjectConfiguration
from esker.storage.objects.hadoop_access import hadoop_access
from esker.storage.relocated import RelocatedStorage

KEYS = {"s3.access-key-id": "AKIA1", "s3.secret-access-key": "hidden-secret"}
PROVIDER = "fs.s3a.bucket.b.aws.credentials.provider"


def access(location: str, **environ: str) -> tuple[str, dict[str, str]]:
    root, found = hadoop_access(ObjectConfiguration.of({}, environ), location)
    assert not found.obstacle
    return root, dict(found.settings)


def of(properties: dict[str, str], location: str = "s3://b/t") -> dict[str, str]:
    found = hadoop_access(ObjectConfiguration.of(properties, {}), location)[1]
    assert not found.obstacle
    return dict(found.settings)


def obstacle(properties: dict[str, str], location: str = "s3://b/t") -> str:
    found = hadoop_access(ObjectConfiguration.of(properties, {"HOME": "/nowhere"}), location)[1]
    assert not found.settings
    return found.obstacle


def test_keys_endpoint_and_region_apply_to_the_one_bucket() -> None:
    assert of({**KEYS, "s3.endpoint": "http://host:9000/", "s3.region": "eu-north-1"}) == {
        "fs.s3a.bucket.b.endpoint": "http://host:9000",
        "fs.s3a.bucket.b.endpoint.region": "eu-north-1",
        "fs.s3a.bucket.b.path.style.access": "true",
        "fs.s3a.bucket.b.access.key": "AKIA1",
        "fs.s3a.bucket.b.secret.key": "hidden-secret",
        PROVIDER: "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }


def test_the_environment_counts_as_it_does_for_the_client() -> None:
    found = access(
        "s3n://b/t", AWS_ACCESS_KEY_ID="AKIA1", AWS_SECRET_ACCESS_KEY="x", AWS_SESSION_TOKEN="t", AWS_REGION="r"
    )
    assert found == (
        "s3a://b",
        {
            "fs.s3a.bucket.b.endpoint.region": "r",
            "fs.s3a.bucket.b.access.key": "AKIA1",
            "fs.s3a.bucket.b.secret.key": "x",
            "fs.s3a.bucket.b.session.token": "t",
            PROVIDER: "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
        },
    )


def test_what_the_configuration_does_not_say_is_left_to_the_session() -> None:
    assert of({}) == {}


def test_anonymous_requests_proxies_and_limits() -> None:
    anonymous = of({"s3.anonymous": "true", "s3.proxy-uri": "http://proxy:3128", "s3.connect-timeout": "1.5"})
    assert anonymous == {
        PROVIDER: "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
        "fs.s3a.bucket.b.proxy.host": "proxy",
        "fs.s3a.bucket.b.proxy.port": "3128",
        "fs.s3a.bucket.b.connection.establish.timeout": "1500ms",
    }
    assert of({"s3.retry.num-retries": "2"}) == {"fs.s3a.bucket.b.attempts.maximum": "3"}


@pytest.mark.parametrize(
    ("properties", "path_style"),
    [
        ({"s3.endpoint": "http://h", "s3.path-style-access": "false"}, "false"),
        ({"s3.endpoint": "http://h", "s3.force-virtual-addressing": "true"}, "false"),
        ({"s3.path-style-access": "true"}, "true"),
    ],
)
def test_the_bucket_is_where_the_client_has_it(properties: dict[str, str], path_style: str) -> None:
    assert of(properties)["fs.s3a.bucket.b.path.style.access"] == path_style


@pytest.mark.parametrize(
    ("properties", "location", "reason"),
    [
        ({"s3.role-arn": "arn:aws:iam::1:role/r"}, "s3://b/t", "sign in"),
        ({**KEYS, "s3.session-token": "t", "s3.session-token-expires-at-ms": "1"}, "s3://b/t", "expire"),
        ({}, "s3://under_score/t", "name of the bucket"),
        ({"s3.proxy-uri": "http://me:word@proxy"}, "s3://b/t", "proxy"),
        ({"gcs.oauth2.token": "t"}, "gs://b/t", "token"),
        ({"adls.token": "t"}, "abfss://c@acct.dfs.core.windows.net/t", "token"),
        ({"adls.anon": "true"}, "abfss://c@acct.dfs.core.windows.net/t", "credentials"),
        ({}, "az://c/t", "account"),
    ],
)
def test_what_hadoop_cannot_do_is_an_obstacle(properties: dict[str, str], location: str, reason: str) -> None:
    assert reason in obstacle(properties, location)


def test_credentials_of_a_catalog_that_are_renewed_are_an_obstacle() -> None:
    vended = StorageCredentials(prefix="s3://b/", config=KEYS)
    configuration = ObjectConfiguration.of({}, {})
    assert "renew" in hadoop_access(configuration.with_vended([vended], lambda: [vended]), "s3://b/t")[1].obstacle
    kept = hadoop_access(configuration.with_vended([vended]), "s3://b/t")[1]
    assert dict(kept.settings)["fs.s3a.bucket.b.access.key"] == "AKIA1"


def test_requests_that_a_catalog_signs_are_an_obstacle() -> None:
    signed = replace(ObjectConfiguration.of({}, {}), signer=lambda *_: None)  # type: ignore[arg-type]
    assert "signs every request" in hadoop_access(signed, "s3://b/t")[1].obstacle


def test_azure_has_one_driver_and_settings_of_the_account() -> None:
    host = "acct.dfs.core.windows.net"
    configuration = ObjectConfiguration.of({"adls.account-key": "k"}, {})
    for location in (f"abfss://c@{host}/t", "wasbs://c@acct.blob.core.windows.net/t"):
        root, found = hadoop_access(configuration, location)
        assert root == f"abfss://c@{host}"
        assert dict(found.settings) == {
            f"fs.azure.account.auth.type.{host}": "SharedKey",
            f"fs.azure.account.key.{host}": "k",
        }
    sas = of({"adls.account-name": "acct", "adls.sas-token": "?sv=1"}, "az://c/t")
    assert sas == {f"fs.azure.account.auth.type.{host}": "SAS", f"fs.azure.sas.fixed.token.{host}": "sv=1"}
    principal = of({"adls.tenant-id": "T", "adls.client-id": "C", "adls.client-secret": "S"}, f"abfs://c@{host}/t")
    assert principal[f"fs.azure.account.oauth2.client.endpoint.{host}"].endswith("/T/oauth2/token")
    assert principal[f"fs.azure.account.oauth2.client.secret.{host}"] == "S"


def test_google_without_a_token_needs_no_keys() -> None:
    assert of({}, "gcs://b/t") == {}
    emulator = of({"gcs.service.host": "localhost:4443", "gcs.no-auth": "true"}, "gs://b/t")
    assert emulator == {
        "fs.gs.storage.root.url": "http://localhost:4443/",
        "fs.gs.auth.type": "UNAUTHENTICATED",
    }


def test_half_a_key_is_refused() -> None:
    with pytest.raises(InvalidInput, match="go together"):
        of({"s3.access-key-id": "AKIA1"})


def test_settings_are_not_shown() -> None:
    storage = storage_for(["s3://b/wh"], configuration=ObjectConfiguration.of(KEYS, {}))
    found = hadoop_file(storage, "s3://b/wh/t/a b%20.parquet")
    assert found.uri == "s3a://b/wh/t/a b%20.parquet"
    assert dict(found.access.settings)["fs.s3a.bucket.b.secret.key"] == "hidden-secret"
    assert "hidden" not in repr(found)
    assert "AKIA1" not in repr(found)


def test_every_storage_passes_the_question_on() -> None:
    configuration = ObjectConfiguration.of(KEYS, {})
    mixed = storage_for(["s3://b/wh", "/data"], configuration=configuration)
    moved = RelocatedStorage(mixed, recorded="hdfs://n/old", actual="s3://b/wh/t")
    assert hadoop_file(moved, "hdfs://n/old/data/f.parquet").uri == "s3a://b/wh/t/data/f.parquet"
    assert hadoop_file(MemoryStorage(), "hdfs://n/t/f.parquet").uri == "hdfs://n/t/f.parquet"
    assert hadoop_file(LocalStorage(), "/data/f").access.settings == ()
    with pytest.raises(InvalidInput):
        hadoop_file(mixed, "s3://other/f")
