"""Signatures of AWS, by the vectors that AWS publishes for the algorithm."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from esker.catalogs.rest.auth import SigV4, aws_keys
from esker.catalogs.rest.secret import Secret
from esker.catalogs.rest.settings import RestSettings
from esker.catalogs.rest.sigv4 import AwsKeys, authorization
from esker.catalogs.rest.transport import Request
from esker.errors import InvalidInput

KEYS = AwsKeys(access_key_id="AKIDEXAMPLE", secret_access_key=Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"))
DATE = {"Host": "example.amazonaws.com", "X-Amz-Date": "20150830T123600Z"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "signature"),
    [
        ("GET", "/", {}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", {}, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "GET",
            "/?Param2=value2&Param1=value1",
            {},
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "GET",
            "/",
            {"My-Header1": " value1", "My-Header2": ' "a   b   c"'},
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
    ],
)
def test_published_vectors(method: str, path: str, headers: dict[str, str], signature: str) -> None:
    found = authorization(
        method,
        f"https://example.amazonaws.com{path}",
        {**DATE, **headers},
        b"",
        keys=KEYS,
        region="us-east-1",
        service="service",
    )
    assert found.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, ")
    assert found.endswith(f"Signature={signature}")


def settings(**more: str) -> RestSettings:
    own = {"rest.sigv4-enabled": "true", "rest.signing-name": "s3tables", "rest.signing-region": "eu-west-1"}
    return RestSettings.of("https://s3tables.example/iceberg", properties={**own, **more})


def test_a_signed_request_has_date_hash_and_session_token() -> None:
    keys = {"client.access-key-id": "AK", "client.secret-access-key": "S3cr3t", "client.session-token": "T0k3n"}
    auth = SigV4(settings(**keys), now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    url = "https://s3tables.example/iceberg/v1/arn%3Aaws/namespaces/a%1Fb?pageToken="
    headers = auth.authorized(Request(method="POST", url=url, body=b"{}")).headers
    assert headers["x-amz-date"] == "20260102T030405Z"
    assert headers["x-amz-security-token"] == "T0k3n"
    assert headers["x-amz-content-sha256"] == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token" in headers["Authorization"]
    assert "eu-west-1/s3tables/aws4_request" in headers["Authorization"]


def test_keys_come_from_properties_then_the_environment_then_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    file = f"{tmp_path}/credentials"
    with open(file, "w") as out:  # noqa: PTH123
        out.write("[default]\naws_access_key_id = FILE\naws_secret_access_key = x\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", file)
    assert aws_keys(settings()).access_key_id == "FILE"
    with pytest.raises(InvalidInput, match="there are no AWS keys"):
        aws_keys(settings(**{"client.profile-name": "other"}))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENV")
    with pytest.raises(InvalidInput, match="no secret access key"):
        aws_keys(settings())
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    assert aws_keys(settings()).access_key_id == "ENV"
    assert aws_keys(settings(**{"rest.access-key-id": "P", "rest.secret-access-key": "z"})).access_key_id == "P"


def test_a_region_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(InvalidInput, match="there is no region"):
        SigV4(RestSettings.of("https://x.example", properties={"rest.sigv4-enabled": "true"}))
