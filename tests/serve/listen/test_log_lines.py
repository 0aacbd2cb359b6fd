"""The log has a line for each request and each change, also for a change without a known outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from esker_server import logging_to

import esker
from esker.errors import InvalidInput, OutcomeUnknown
from esker.lake import Lake
from esker.serve.access import Tokens
from esker.serve.call import Call
from esker.serve.catalog_service import Service
from esker.serve.listen.log_lines import write_log

SECRET = "a-secret-0123456789abcdef"
Lines = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("a")
    lake.create_table("a.t", "id int")
    return lake


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    """The lines of one kind that were written so far."""
    file = tmp_path / "log"
    with logging_to(file):
        yield lambda kind: [
            one for one in map(msgspec.json.decode, file.read_text().splitlines()) if one["log"] == kind
        ]


def service_with_token(lake: Lake, folder: Path) -> Service:
    (folder / "tokens").write_text(f"# who may do what\nwrite {SECRET}\n")
    return Service(lake, tokens=Tokens.read(folder / "tokens"))


def send(service: Service, method: str, path: str, body: Any = None) -> int:
    content = b"" if body is None else msgspec.json.encode(body)
    headers = {"authorization": f"Bearer {SECRET}"}
    return service.answer(method, path, Call(headers=headers, body=content)).status


def test_each_change_is_a_line_that_says_who_and_what(lake: Lake, tmp_path: Path, lines: Lines) -> None:
    service = service_with_token(lake, tmp_path)
    names = {"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["a"], "name": "u\n{}"}}
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"x": "1"}}]}
    assert send(service, "GET", "/v1/namespaces/a/tables/t") == 200  # changes nothing
    assert send(service, "POST", "/v1/namespaces/a/tables/t", commit) == 200
    refused = send(service, "POST", "/v1/tables/rename", names)
    together = {"table-changes": [{"identifier": names["source"], **commit}]}
    assert send(service, "POST", "/v1/transactions/commit", together) == 204
    assert send(service, "DELETE", "/v1/namespaces/a/tables/t") == 204
    found = [(one["by"], one["operation"].split()[0], one["of"], one["status"]) for one in lines("audit")]
    assert found == [
        ("line 2", "POST", ["a", "t"], 200),
        ("line 2", "POST", ["a.t", "a.u\n{}"], refused),
        ("line 2", "POST", ["a.t"], 204),
        ("line 2", "DELETE", ["a", "t"], 204),
    ]
    assert SECRET not in (tmp_path / "log").read_text()


def test_a_change_without_a_known_outcome_is_a_line(
    lake: Lake, tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OutcomeUnknown("the database never answered")

    service = service_with_token(lake, tmp_path)
    monkeypatch.setattr(type(lake.catalog), "rename", fail)
    names = {"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["a"], "name": "u"}}
    assert send(service, "POST", "/v1/tables/rename", names) == 500
    assert [(one["of"], one["status"]) for one in lines("audit")] == [(["a.t", "a.u"], 500)]


def test_each_request_is_a_line(lake: Lake, lines: Lines) -> None:
    pytest.importorskip("uvicorn")
    from urllib.request import urlopen

    from esker_server import serving

    with serving(lake) as uri, urlopen(f"{uri}/v1/namespaces/a/tables?pageSize=5", timeout=20) as answer:
        size = len(answer.read())
    (line,) = lines("access")
    assert line["ms"] >= 0
    expected = {"client": "127.0.0.1", "method": "GET", "path": "/v1/namespaces/a/tables", "status": 200, "bytes": size}
    assert {name: line[name] for name in expected} == expected


def test_a_log_that_was_moved_away_is_made_again(lake: Lake, tmp_path: Path, lines: Lines) -> None:
    service = Service(lake)
    assert send(service, "DELETE", "/v1/namespaces/a/tables/t") == 204
    (tmp_path / "log").rename(tmp_path / "log.1")
    assert send(service, "DELETE", "/v1/namespaces/a") == 204
    assert [one["of"] for one in lines("audit")] == [["a"]]


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot write the log"):
        write_log(f"{tmp_path}/no/log")
