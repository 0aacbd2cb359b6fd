"""On tables that PyIceberg writes, Esker's metadata tables say what PyIceberg's own say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg_lake import directory_of, events, pyiceberg_catalog

import esker
from esker.table import Table

pytestmark = pytest.mark.interop

NAMES = (
    "entries",
    "files",
    "data_files",
    "delete_files",
    "history",
    "metadata_log_entries",
    "snapshots",
    "refs",
    "manifests",
    "partitions",
    "all_files",
    "all_data_files",
    "all_delete_files",
    "all_manifests",
)


def _unpartitioned(folder: Path) -> Any:
    table = pyiceberg_catalog(folder).create_table("ns.plain", events(0, 1).schema)
    for first in (0, 5, 9):
        table.append(events(first, 4))
    table.delete("id = 3")
    return table


def _partitioned(folder: Path) -> Any:
    from pyiceberg.transforms import IdentityTransform

    table = pyiceberg_catalog(folder).create_table("ns.parts", events(0, 1).schema)
    with table.update_spec() as change:
        change.add_field("day", IdentityTransform(), "day")
    table.append(events(0, 6))
    with table.update_spec() as change:
        change.add_field("kind", IdentityTransform(), "kind")
    table.append(events(6, 6))
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "v1").commit()
    return table


def _version_1(folder: Path) -> Any:
    from pyiceberg.transforms import IdentityTransform

    catalog = pyiceberg_catalog(folder)
    table = catalog.create_table("ns.old", events(0, 1).schema, properties={"format-version": "1"})
    with table.update_spec() as change:
        change.add_field("kind", IdentityTransform(), "kind")
    table.append(events(0, 6))
    return table


def _evolved(folder: Path) -> Any:
    from pyiceberg.types import LongType

    table = _unpartitioned(folder)
    with table.update_schema() as change:
        change.rename_column("note", "remark")
        change.add_column("extra", LongType())
        change.delete_column("price")
    return table


MAKERS = {"unpartitioned": _unpartitioned, "partitioned": _partitioned, "version 1": _version_1, "evolved": _evolved}


@pytest.fixture(scope="module", params=MAKERS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Table]:
    """One table, held by PyIceberg and by Esker."""
    make: Callable[[Path], Any] = MAKERS[request.param]
    theirs = make(tmp_path_factory.mktemp("lake"))
    return theirs, esker.open_table(directory_of(theirs))


@pytest.mark.parametrize("name", NAMES)
def test_every_column_that_pyiceberg_has_holds_what_it_says(both: tuple[Any, Table], name: str) -> None:
    theirs, ours = (getattr(table.inspect, name)() for table in both)
    shared = [column for column in theirs.schema.names if column in ours.schema.names]
    assert len(shared) >= len(theirs.schema.names) - 1, "all but the partition of an unpartitioned table"
    for row, other in zip(_rows(ours, shared), _rows(theirs, shared), strict=True):
        assert _only_what(other, row) == other


def _rows(table: Any, columns: list[str]) -> list[dict[str, Any]]:
    rows = [_normal(row) for row in table.select(columns).to_pylist()]
    return sorted(rows, key=_identity)


def _identity(row: dict[str, Any]) -> str:
    keys = ("status", "file_path", "path", "reference_snapshot_id", "snapshot_id", "partition", "file", "name")
    file = row.get("data_file", {})
    return repr([row.get(key, file.get(key)) for key in keys])


def _normal(value: Any) -> Any:
    """Differences of dress: maps as pairs, local paths with and without scheme, times without their zone."""
    match value:
        case dict():
            return {key: _normal(held) for key, held in value.items()}
        case [(_, _), *_] if all(isinstance(pair, tuple) for pair in value):
            return {key: _normal(held) for key, held in value}
        case list():
            return [_normal(held) for held in value]
        case datetime():
            return value.replace(tzinfo=UTC)
        case str():
            return value.removeprefix("file://")
        case float() if value != value:
            return "NaN"
        case _:
            return value


def _only_what(theirs: Any, ours: Any) -> Any:
    """Ours, cut down to what theirs has: PyIceberg shows no spec ids, and none of our nested columns' metrics."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return {key: _only_what(held, ours.get(key)) for key, held in theirs.items()}
    if isinstance(theirs, dict) and not any(held is not None for held in theirs.values()) and ours is None:
        return theirs  # the metrics of a whole list or struct, of which there are none
    if theirs == [] and ours is None:
        return theirs  # an empty map or list where the manifest has none
    return ours
