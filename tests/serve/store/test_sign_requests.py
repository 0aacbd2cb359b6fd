"""What the server signs, and what it refuses to sign: a signature must reach no more than one table."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from esker.errors import EskerError, InvalidInput
from esker.iceberg.json_document import JsonObject
from esker.serve.error_answers import NotAllowed
from esker.serve.store.server_keys import Place, ServerStore
from esker.serve.store.sign_requests import Signing
from esker.serve.store.vend_credentials import session_policy
from esker.storage.objects.configuration import ObjectConfiguration

KEYS = {"s3.access-key-id": "AKIAEXAMPLE", "s3.secret-access-key": "a-secret-that-is-long"}
HERE = "https://store.test:9000"
PLACES = (Place("bucket", "wh/a/t"), Place("bucket", "elsewhere/t"))
DELETE = "<Delete><Object><Key>{}</Key></Object></Delete>"


def store(**more: str) -> ServerStore:
    return ServerStore(ObjectConfiguration.of({**KEYS, "s3.endpoint": HERE, "s3.region": "eu-west-1", **more}, {}))


def ask(uri: str, method: str = "GET", *, may_write: bool = True, **more: Any) -> dict[str, Any]:
    given = {"region": "eu-west-1", "uri": uri, "method": method, "headers": {}, **more}
    signing = Signing(store(), now=lambda: 1_800_000_000.0)
    answer = signing.signed(JsonObject("test", "the body", given), PLACES, may_write=may_write)
    found: dict[str, Any] = msgspec.json.decode(answer.body)
    return {**found, "cache": answer.headers["cache-control"]}


@pytest.mark.parametrize(
    ("method", "uri", "more"),
    [
        ("GET", f"{HERE}/bucket/wh/a/t/data/x.parquet", {}),
        ("HEAD", "https://bucket.store.test:9000/wh/a/t/data/x.parquet", {}),
        ("GET", f"{HERE}/bucket/elsewhere/t/x", {}),
        ("GET", f"{HERE}/bucket?list-type=2&prefix=wh%2Fa%2Ft%2Fdata", {}),
        ("PUT", f"{HERE}/bucket/wh/a/t/x", {"headers": {"X-Amz-Meta-A": ["b"], "Content-Length": ["3"]}}),
        ("PUT", f"{HERE}/bucket/wh/a/t/x?partNumber=1&uploadId=u", {}),
        ("POST", f"{HERE}/bucket/wh/a/t/x?uploads=", {}),
        ("DELETE", f"{HERE}/bucket/wh/a/t/x", {}),
        ("POST", f"{HERE}/bucket?delete", {"body": DELETE.format("wh/a/t/x")}),
    ],
)
def test_requests_for_the_files_of_the_table_are_signed(method: str, uri: str, more: dict[str, Any]) -> None:
    found = ask(uri, method, **more)
    assert found["headers"]["Authorization"][0].startswith("AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20270115/eu-west-1")
    assert found["cache"] == ("private" if method in ("GET", "HEAD") else "no-cache")
    assert KEYS["s3.secret-access-key"] not in str(found)


@pytest.mark.parametrize(
    ("method", "uri", "more"),
    [
        ("GET", f"{HERE}/bucket/wh/a/t2/x", {}),
        ("GET", f"{HERE}/bucket/wh/a/t", {}),
        ("GET", f"{HERE}/bucket/wh/a/t/", {}),
        ("GET", f"{HERE}/bucket/wh/a/t/%2e%2e/other/x", {}),
        ("GET", f"{HERE}/bucket/wh/a/t/../other/x", {}),
        ("GET", f"{HERE}/other/wh/a/t/x", {}),
        ("GET", "https://elsewhere.test/bucket/wh/a/t/x", {}),
        ("GET", "http://store.test:9000/bucket/wh/a/t/x", {}),
        ("GET", "https://key@store.test:9000/bucket/wh/a/t/x", {}),
        ("GET", f"{HERE}/bucket/wh/a/t/x?acl", {}),
        ("PUT", f"{HERE}/bucket/wh/a/t/x?tagging", {}),
        ("GET", f"{HERE}/bucket?list-type=2&prefix=wh/a/t", {}),
        ("GET", f"{HERE}/bucket?list-type=2", {}),
        ("GET", f"{HERE}/bucket?list-type=2&prefix=wh/a/t/&prefix=", {}),
        ("GET", f"{HERE}/bucket?policy", {}),
        ("GET", f"{HERE}/", {}),
        ("DELETE", f"{HERE}/bucket", {}),
        ("PATCH", f"{HERE}/bucket/wh/a/t/x", {}),
        ("POST", f"{HERE}/bucket/wh/a/t/x", {}),
        ("PUT", f"{HERE}/bucket/wh/a/t/x", {"headers": {"x-amz-copy-source": ["/bucket/wh/a/t2/x"]}}),
        ("PUT", f"{HERE}/bucket/wh/a/t/x", {"headers": {"X-Amz-Acl": ["public-read"]}}),
        ("PUT", f"{HERE}/bucket/wh/a/t/x", {"headers": {"x-amz-grant-read": ["id=1"]}}),
        ("PUT", f"{HERE}/bucket/wh/a/t/x", {"headers": {"x-amz-meta-a": ["b\r\nx-amz-acl: public-read"]}}),
        ("PUT", f"{HERE}/bucket/wh/a/t/x", {"headers": {"x-amz-content-sha256": ["nonsense"]}}),
        ("POST", f"{HERE}/bucket?delete", {}),
        ("POST", f"{HERE}/bucket?delete", {"body": DELETE.format("wh/a/t2/x")}),
        ("POST", f"{HERE}/bucket?delete", {"body": "<!DOCTYPE x>" + DELETE.format("wh/a/t/x")}),
        ("POST", f"{HERE}/bucket?delete", {"body": "nonsense"}),
        ("GET", f"{HERE}/bucket/wh/a/t/x", {"region": "us-west-2"}),
        ("GET", f"{HERE}/bucket/wh/a/t/x", {"provider": "gcs"}),
        ("GET", f"{HERE}/bucket/wh/a/t/%ff", {}),
    ],
)
def test_s14_nothing_else_is_signed(method: str, uri: str, more: dict[str, Any]) -> None:
    with pytest.raises((NotAllowed, InvalidInput)):
        ask(uri, method, **more)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_reader_gets_no_signature_for_a_change(method: str) -> None:
    with pytest.raises(NotAllowed, match="only read"):
        ask(f"{HERE}/bucket/wh/a/t/x", method, may_write=False)
    ask(f"{HERE}/bucket/wh/a/t/x", may_write=False)


def test_the_body_of_a_delete_is_part_of_its_signature() -> None:
    one, two = (
        ask(f"{HERE}/bucket?delete", "POST", body=DELETE.format(key))["headers"] for key in ("wh/a/t/x", "wh/a/t/y")
    )
    assert one["x-amz-content-sha256"] != two["x-amz-content-sha256"]
    assert one["Authorization"] != two["Authorization"]
    with pytest.raises(EskerError):
        ask(
            f"{HERE}/bucket?delete",
            "POST",
            body=DELETE.format("wh/a/t/x"),
            headers={"x-amz-content-sha256": ["UNSIGNED-PAYLOAD"]},
        )


def test_the_stores_of_amazon_are_known_in_both_styles() -> None:
    found = ServerStore(ObjectConfiguration.of({**KEYS, "s3.region": "eu-west-1"}, {}))
    assert found.object_at("https://s3.eu-west-1.amazonaws.com/bucket/a/b") == ("bucket", "a/b")
    assert found.object_at("https://bucket.s3.eu-west-1.amazonaws.com/a/b") == ("bucket", "a/b")
    assert found.object_at("https://bucket.s3.amazonaws.com/a/b") == ("bucket", "a/b")
    assert found.object_at("https://s3.eu-west-1.amazonaws.com.evil.test/bucket/a") is None
    assert found.object_at("http://s3.amazonaws.com/bucket/a") is None
    assert found.token_service() == "https://sts.eu-west-1.amazonaws.com"


def test_a_session_policy_names_the_places_and_no_wildcard_of_theirs() -> None:
    policy = msgspec.json.decode(session_policy([Place("b", "wh/*/t?")], may_write=False, partition="aws-cn"))
    objects, lists, _ = policy["Statement"]
    assert objects["Resource"] == ["arn:aws-cn:s3:::b/wh/${*}/t${?}/*"]
    assert objects["Action"] == ["s3:GetObject"]
    assert lists["Condition"] == {"StringLike": {"s3:prefix": ["wh/${*}/t${?}/*"]}}
    written = msgspec.json.decode(session_policy([Place("b", "t")], may_write=True))["Statement"][0]["Action"]
    assert {"s3:PutObject", "s3:DeleteObject"} <= set(written)
