"""The server's side of remote signing: requests to S3 are signed by botocore with a key that the client never sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from esker.ports.credentials import SignedRequest


def signed(document: Mapping[str, Any], key: str, secret: str) -> dict[str, Any]:
    """The answer to a request for a signature."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    class WithoutPayload(S3SigV4Auth):  # type: ignore[misc]  # botocore has no types
        def payload(self, request: Any) -> str:
            return "UNSIGNED-PAYLOAD"

    headers = {name: ", ".join(values) for name, values in document["headers"].items()}
    request = AWSRequest(method=document["method"], url=document["uri"], headers=headers)
    WithoutPayload(Credentials(key, secret), "s3", document["region"]).add_auth(request)
    return {"uri": request.url, "headers": {name: [value] for name, value in request.headers.items()}}


@dataclass
class LocalSigner:
    """Signs in this process. The storage under test has no other way to the key."""

    key: str
    secret: str
    asked: int = 0

    def sign(
        self, method: str, uri: str, headers: Mapping[str, str], *, region: str, fresh: bool = False
    ) -> SignedRequest:
        self.asked += 1
        document = {"method": method, "uri": uri, "region": region, "headers": {n: [v] for n, v in headers.items()}}
        answer = signed(document, self.key, self.secret)
        return SignedRequest(answer["uri"], {name: values[0] for name, values in answer["headers"].items()})
