"""Paimon's own Java library as a judge in a process of its own, for the tests in ``tests/interop_jvm``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parents[1] / "interop_jvm" / "PaimonJudge.java"
JARS = Path(os.environ.get("ESKER_JVM_ENVIRONMENT", "")).resolve() / "paimon"


class Refused(Exception):
    """The library could not do what it was asked."""


class PaimonJudge:
    """One warehouse, written and read by Java. Tables have names such as ``db.table``.

    A row to write is a list: the kind (``+I``, ``-U``, ``+U``, ``-D``), then a value for each column. Dates, times and
    decimals are text, binary is base64, a map is a list of pairs. Rows come back as dictionaries of the same values.
    """

    def __init__(self, warehouse: Path, folder: Path) -> None:
        self._log = folder / "paimon.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["java", "-Xmx512m", "-Duser.timezone=UTC", "-cp", f"{JARS}/*", PROGRAM, warehouse, folder / "scratch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def create(
        self,
        table: str,
        columns: dict[str, Any],
        *,
        partition: tuple[str, ...] = (),
        primary: tuple[str, ...] = (),
        options: dict[str, str] | None = None,
    ) -> None:
        """Make a table; a column's type is written as in a schema file."""
        self._do(
            "create",
            table,
            columns=list(columns.items()),
            partition=list(partition),
            primary=list(primary),
            options=options or {},
        )

    def alter(self, table: str, *changes: tuple[Any, ...]) -> None:
        """Change a schema: ``("add", name, type)``, ``("rename", old, new)``, ``("drop", name)``, ``("type", name,
        type)``, ``("set", option, value)``."""
        self._do("alter", table, changes=[list(change) for change in changes])

    def write(self, table: str, *rows: list[Any], **more: Any) -> None:
        """Commit rows: with ``overwrite={...}`` in place of a partition, with ``branch="b"`` to a branch."""
        self._do("write", table, rows=list(rows), **more)

    def compact(self, table: str, **more: Any) -> None:
        """Compact every bucket fully."""
        self._do("compact", table, **more)

    def read(
        self, table: str, *, branch: str | None = None, where: tuple[str, str, Any] | None = None, **options: str
    ) -> list[dict[str, Any]]:
        """All rows; options with their dots as underscores twice: ``scan__snapshot-id="1"``. With ``where``, such as
        ``("a", "<=", 5)``, without the files and parts of files that the library rules out."""
        more: dict[str, Any] = {"branch": branch} if branch else {}
        if where:
            more["where"] = list(where)
        if options:
            more["options"] = {name.replace("__", "."): value for name, value in options.items()}
        rows: list[dict[str, Any]] = self._do("read", table, **more)
        return rows

    def tag(self, table: str, name: str, snapshot: int) -> None:
        """Name a snapshot."""
        self._do("tag", table, name=name, snapshot=snapshot)

    def branch(self, table: str, name: str, *, tag: str) -> None:
        """Make a branch from a tag."""
        self._do("branch", table, name=name, tag=tag)

    def expire(self, table: str, *, keep: int) -> int:
        """Let the library expire snapshots, and say how many went."""
        return int(self._do("expire", table, keep=keep))

    def snapshot(self, table: str) -> int:
        """The id of the latest snapshot."""
        return int(self._do("snapshot", table))

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _do(self, verb: str, table: str, **more: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": verb, "table": table, **more}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, self._log.read_text()[-3000:]
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["answer"]
