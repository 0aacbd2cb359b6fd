"""Expiry and removal of orphans beside Iceberg's own procedures: on two equal tables both leave the same, and each
reads what the other has tended."""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Shared

LATE = 4_102_444_800_000  # 2100-01-01
HISTORY = (
    "INSERT INTO {{{0}}} VALUES (0, 'eu'), (1, 'us')",
    "INSERT INTO {{{0}}} VALUES (2, 'eu'), (3, 'us')",
    "INSERT INTO {{{0}}} VALUES (4, 'eu'), (5, 'us')",
    "ALTER TABLE {{{0}}} CREATE TAG v1",
    "DELETE FROM {{{0}}} WHERE id = 2",
    "ALTER TABLE {{{0}}} CREATE BRANCH audit",
    "INSERT INTO {{{0}}} VALUES (6, 'eu')",
    "DELETE FROM {{{0}}} WHERE region = 'us'",
    "INSERT OVERWRITE {{{0}}} SELECT id + 10, region FROM {{{0}}}",
    "INSERT INTO {{{0}}} VALUES (7, 'us')",
)


def make(shared: Shared, name: str, mode: str) -> None:
    """A table with a history, written by Java."""
    shared.sql(
        f"CREATE TABLE {{{name}}} (id bigint, region string) USING iceberg PARTITIONED BY (region) "
        f"TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = '{mode}')"
    )
    shared.run(*(text.format(name) for text in HISTORY))


def folder_of(shared: Shared, name: str) -> Path:
    return Path(shared.table(name).location.removeprefix("file://").removeprefix("file:"))


def files(shared: Shared, name: str) -> Counter[str]:
    """How many files of each kind there are."""
    kinds: Counter[str] = Counter()
    for path in folder_of(shared, name).rglob("*"):
        if path.is_file() and not path.name.startswith((".", "version-hint")):
            kind = "data" if path.parent.name != "metadata" else "list" if path.name.startswith("snap-") else "manifest"
            kinds["metadata" if path.name.endswith(".json") else kind] += 1
    return kinds


def without_metadata(kinds: Counter[str]) -> dict[str, int]:
    return {kind: count for kind, count in kinds.items() if kind != "metadata"}


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("last", [1, 3])
def test_expiry_leaves_what_java_leaves(shared: Shared, mode: str, last: int) -> None:
    for name in ("ours", "theirs"):
        make(shared, name, mode)
    assert files(shared, "ours") == files(shared, "theirs")
    report = shared.table("ours").expire_snapshots(older_than=LATE, retain_last=last)
    answer = shared.sql(
        "CALL {catalog}.system.expire_snapshots(table => '{namespace}.theirs', "
        f"older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => {last})"
    )
    counted = answer.rows[0]
    kinds = ("data", "position-deletes", "equality-deletes", "manifest", "manifest-list", "statistics")
    assert tuple(report.files.get(kind, 0) for kind in kinds) == tuple(counted)
    assert len(shared.table("ours").snapshots) == len(shared.table("theirs").snapshots)
    assert without_metadata(files(shared, "ours")) == without_metadata(files(shared, "theirs"))
    for name in ("ours", "theirs"):
        shared.assert_same(name)
        shared.assert_same(name, version="v1")
        shared.assert_same(name, version="audit")
        assert shared.table(name).verify(deep=True).ok
    # each goes on where the other has tended
    shared.sql("INSERT INTO {ours} VALUES (100, 'eu')")
    shared.table("theirs").append({"id": [100], "region": ["eu"]})
    assert shared.table("theirs").expire_snapshots(older_than=LATE).done
    shared.sql(
        "CALL {catalog}.system.expire_snapshots(table => '{namespace}.ours', "
        "older_than => TIMESTAMP '2100-01-01 00:00:00')"
    )
    assert len(shared.table("ours").snapshots) == len(shared.table("theirs").snapshots)
    for name in ("ours", "theirs"):
        shared.assert_same(name)
        assert shared.table(name).verify(deep=True).ok


def test_orphans_are_those_that_java_finds(sqlite: Shared) -> None:
    for name in ("ours", "theirs"):
        make(sqlite, name, "merge-on-read")
        folder = folder_of(sqlite, name)
        for lost in ("data/lost.parquet", "data/region=eu/lost.parquet", "metadata/lost-m0.avro", "data/_hidden"):
            (folder / lost).write_bytes(b"x")
        for path in folder.rglob("*"):
            if path.is_file():
                os.utime(path, (1, 1))  # everything is old: age alone saves nothing
        (folder / "data" / "young.parquet").write_bytes(b"x")
    report = sqlite.table("ours").remove_orphans(older_than=timedelta(days=2))
    answer = sqlite.sql("CALL {catalog}.system.remove_orphan_files(table => '{namespace}.theirs')")
    theirs = sorted(Path(row[0]).name for row in answer.rows)
    assert (
        sorted(Path(file).name for file in report.files) == theirs == ["lost-m0.avro", "lost.parquet", "lost.parquet"]
    )
    assert files(sqlite, "ours") == files(sqlite, "theirs")
    for name in ("ours", "theirs"):
        sqlite.assert_same(name)
        assert sqlite.table(name).verify(deep=True).ok
