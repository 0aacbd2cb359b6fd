"""Random requests, made by schemathesis from the server's own OpenAPI document: no 500, no status that is not in it.

``ESKER_RANDOM_REQUESTS`` is the number for each operation.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import esker
from esker.lake import Lake
from esker.serve.call import Call
from esker.serve.catalog_service import Service
from esker.serve.find_operation import ALL_OPERATIONS, TOKEN
from esker.serve.openapi_document import openapi_document, statuses_of

schemathesis = pytest.importorskip("schemathesis", reason="make test installs it")
EXAMPLES = int(os.environ.get("ESKER_RANDOM_REQUESTS", "8"))
DOCUMENT = openapi_document()
NAMES = {"namespace": "a", "table": "t", "view": "v"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder: Path = tmp_path_factory.mktemp("lake")
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    lake.create_namespace("a")
    return lake


def again(lake: Lake) -> None:
    """The table and the view that requests name; some requests remove them."""
    if ("a",) not in lake.catalog.namespaces():
        lake.create_namespace("a")
    if "a.t" not in lake.tables("a"):
        lake.create_table("a.t", "id bigint, name string")


def test_the_document_has_every_operation() -> None:
    found = {
        f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods
    }  # without the prefix, which this server does not have
    assert found == {operation.replace("/{prefix}", "") for operation in ALL_OPERATIONS}


@pytest.mark.parametrize("operation", ALL_OPERATIONS)
def test_a_random_request_gets_a_status_of_the_document(lake: Lake, operation: str) -> None:
    method, _, template = operation.partition(" ")
    path = template.replace("/{prefix}", "")
    schema: Any = schemathesis.openapi.from_dict(DOCUMENT)
    service = Service(lake)
    statuses = set(statuses_of(operation))

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="ESKER_RANDOM_REQUESTS" not in os.environ,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[path][method].as_strategy())
    def send(case: Any) -> None:
        again(lake)
        for is_known in (True, False):  # of what exists, and of names at random
            gaps = {**case.path_parameters, **(NAMES if is_known else {})} if case.path_parameters else {}
            place = path
            for name, value in gaps.items():
                place = place.replace(f"{{{name}}}", quote(str(value), safe=""))
            query = {str(name): str(value) for name, value in (case.query or {}).items()}
            headers = {name.lower(): str(value) for name, value in (case.headers or {}).items()}
            answer = service.answer(method, place, Call(query=query, headers=headers, body=content(case, operation)))
            assert answer.status in statuses, (method, place, query, case.body, answer.body)
            assert answer.status != 500, (method, place, query, case.body, answer.body)

    send()


def content(case: Any, operation: str) -> bytes:
    body = case.body
    if type(body).__name__ == "NotSet" or body is None:
        return b""
    if operation == TOKEN:
        return "&".join(f"{name}={quote(str(value))}" for name, value in body.items()).encode()
    return msgspec.json.encode(body)
