"""Iceberg's own Spark runtime as a peer in a process of its own, for the tests in ``tests/interop_jvm``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

START_SECONDS = 180
ANSWER_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement gave: columns as (name, Spark type) and rows of plain values."""

    columns: list[tuple[str, str]]
    rows: list[tuple[Any, ...]]
    seconds: float  # until Spark's rows were in the peer's Python

    def dicts(self) -> list[dict[str, Any]]:
        """Rows by column name."""
        names = [name for name, _ in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def value(self) -> Any:
        """The one value of a one-row answer."""
        ((found,),) = self.rows
        return found


class Refused(Exception):
    """The peer could not do what it was asked."""


class Peer:
    """One session of the reference, spoken to in SQL."""

    def __init__(self, python: Path, script: Path, jars: Path, settings: Mapping[str, str], folder: Path) -> None:
        self._log = folder / "peer.log"
        address = str(folder / "peer.socket")
        with Listener(address, "AF_UNIX") as listener, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(python), str(script), address, str(jars)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**os.environ, "TZ": "UTC", "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": ""},
            )
            listener._listener._socket.settimeout(START_SECONDS)  # type: ignore[attr-defined]  # accept has no limit of its own
            self._connection: Connection = listener.accept()
        self._connection.send(dict(settings))
        self.version: str = self._receive(START_SECONDS)["version"]

    def sql(self, text: str) -> Answer:
        """Run one statement; `Refused` says what Spark said."""
        self._connection.send(text)
        answer = self._receive(ANSWER_SECONDS)
        if "error" in answer:
            raise Refused(f"{answer['error']}\nin: {text}")
        return Answer(answer["columns"], answer["rows"], answer["seconds"])

    @property
    def pid(self) -> int:
        """The id of its process, which is above its JVM."""
        return self._process.pid

    def run(self, *texts: str) -> None:
        """Run statements one after the other."""
        for text in texts:
            self.sql(text)

    def close(self) -> None:
        """End the session and its process."""
        self._connection.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._kill()

    def _receive(self, seconds: float) -> dict[str, Any]:
        try:
            if self._connection.poll(seconds):
                return self._connection.recv()
            said = f"no answer within {seconds} s"
        except (EOFError, OSError) as error:
            said = f"it is gone ({error!r})"
        self._kill()
        raise RuntimeError(f"the peer: {said}; its log ends in\n{self._log.read_text(errors='replace')[-4000:]}")

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait(30)


def esker_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows of an Arrow table as the peer gives them: maps as mappings, instants as UTC without a zone."""
    return [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist(maps_as_pydicts="strict")]


def assert_equal_rows(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    """Equal bags of rows, NaN equal to itself; what differs is told row by row and column by column."""
    left, right = sorted(map(_canonical, ours)), sorted(map(_canonical, theirs))
    if left == right:
        return
    only_ours = [row for row in ours if _canonical(row) not in right]
    only_theirs = [row for row in theirs if _canonical(row) not in left]
    told = [f"{len(ours)} rows here, {len(theirs)} there; {len(only_ours)} and {len(only_theirs)} without a match"]
    for mine, other in zip(sorted(only_ours, key=_canonical), sorted(only_theirs, key=_canonical), strict=False):
        told += _told(mine, other, "")
    raise AssertionError("\n".join(told[:20]))


def _told(mine: Any, other: Any, path: str) -> list[str]:
    if isinstance(mine, dict) and isinstance(other, dict) and mine.keys() == other.keys():
        return [line for key in mine for line in _told(mine[key], other[key], f"{path}.{key}")]
    return [] if _canonical(mine) == _canonical(other) else [f"{path[1:]}: {mine!r} here, {other!r} there"]


def _canonical(value: Any) -> str:
    """Text that is equal for equal values: maps have no order, a decimal no exponent of its own."""
    match value:
        case dict():
            return "{" + ", ".join(sorted(f"{key!r}: {_canonical(part)}" for key, part in value.items())) + "}"
        case list():
            return "[" + ", ".join(map(_canonical, value)) + "]"
        case Decimal():
            return str(value.normalize())
        case _:
            return repr(value)


def sql_literal(value: Any, *, zoned: bool = False) -> str:
    """The value as Spark's SQL, and so Esker's predicates, spell it; a ``zoned`` time is an instant, in UTC."""
    match value:
        case bool() | int() | float():
            return str(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"TIMESTAMP{'' if zoned else '_NTZ'} '{value.isoformat(' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return f"{value}BD"
        case _:
            return "'" + str(value).replace("'", "\\'") + "'"


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {_plain(key): _plain(part) for key, part in value.items()}
        case list():
            return [_plain(part) for part in value]
        case datetime(tzinfo=zone) if zone is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        case UUID():
            return str(value)
        case _:
            return value
