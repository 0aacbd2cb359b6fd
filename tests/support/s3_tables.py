"""AWS S3 Tables as a client sees it: 13 operations, signed requests, no staged tables, and a store that takes no
deletes. What is not on its list is answered as the service answers it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from faulty_rest import FaultyRest, document, empty, error

from esker.catalogs.rest.apply_updates import applied

ARN = "arn:aws:s3tables:eu-west-1:111122223333:bucket/lake"
_N = "namespaces/[^/]+"
_T = f"{_N}/tables/[^/]+"
OPERATIONS = (  # besides the configuration
    "GET namespaces",
    "POST namespaces",
    f"GET {_N}",
    f"HEAD {_N}",
    f"DELETE {_N}",
    f"GET {_N}/tables",
    f"POST {_N}/tables",
    f"GET {_T}",
    f"POST {_T}",
    f"DELETE {_T}",
    f"HEAD {_T}",
    "POST tables/rename",
)


@dataclass
class S3Tables(FaultyRest):
    """The service. Its configuration lists no operations."""

    def handle(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: Any) -> Any:
        signed = headers.get("authorization", "")
        if not re.match(r"AWS4-HMAC-SHA256 Credential=[^/]+/\d{8}/eu-west-1/s3tables/aws4_request", signed):
            return error(403, "AccessDeniedException", "the request is not signed for s3tables")
        if path == "/v1/config":
            if query.get("warehouse") != ARN:
                return error(404, "NotFoundException", "no such table bucket")
            return 200, {"defaults": {}, "overrides": {"prefix": quote(ARN, safe="")}}
        start = f"/v1/{quote(ARN, safe='')}/"
        if not path.startswith(start):
            return error(404, "UnknownOperationException", path)
        rest = path.removeprefix(start)
        if not any(re.fullmatch(one, f"{method} {rest}") for one in OPERATIONS):
            return error(404, "UnknownOperationException", "this operation is not supported")
        if method == "POST" and rest == "namespaces" and len(body["namespace"]) != 1:
            return error(400, "BadRequestException", "a namespace has one level")
        if method == "DELETE" and "/tables/" in rest and query.get("purgeRequested") != "true":
            return error(400, "BadRequestException", "a table is dropped with its files, or not at all")
        if method == "POST" and rest == "tables/rename":
            return self.renamed(body)
        if method == "POST" and rest.endswith("/tables"):
            return self.created(unquote(rest.split("/")[1]), body)
        if method == "DELETE" and "/tables/" not in rest:
            del self.namespaces[unquote(rest.split("/")[1])]
            return 204, None
        return super().handle(method, f"/v1/{rest}", query, headers, body)

    def created(self, namespace: str, body: Any) -> Any:
        if body.get("stage-create"):
            return error(400, "BadRequestException", "stage-create is not supported")
        if namespace not in self.namespaces:
            return error(404, "NoSuchNamespaceException", namespace)
        route = (namespace, body["name"])
        if route in self.tables:
            return error(409, "AlreadyExistsException", body["name"])
        location = f"{self.warehouse}/{namespace}/{body['name']}"
        properties = dict(body["properties"])
        version = int(properties.pop("format-version", "2"))
        updates = [
            {"action": "assign-uuid", "uuid": empty("").uuid},
            {"action": "upgrade-format-version", "format-version": version},
            {"action": "add-schema", "schema": body["schema"]},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": body["partition-spec"]},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": body["write-order"]},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": location},
            {"action": "set-properties", "updates": properties},
        ]
        self.tables[route] = applied(empty("", uuid=None), updates)
        self.versions[route] = 1
        document(self.tables[route])
        return 200, self.answer(route)

    def renamed(self, body: Any) -> Any:
        old, new = ((one["namespace"][0], one["name"]) for one in (body["source"], body["destination"]))
        self.tables[new], self.versions[new] = self.tables.pop(old), self.versions.pop(old)
        return 204, None
