"""Expiry of a long history: memory and time. There is no peer: PyIceberg's expiry deletes no files."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import Comparison, measure
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.ports.table_format import NewSnapshot
from esker.tree.data_file import DataFile
from esker.tree.manifest import ManifestEntry
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef
from esker.wiring import connect

NAME = "bench.expired"
MOST = 500 << 20
KEPT = 10
_LISTED = 20  # manifests of each snapshot besides its own: the table replaces its files all the time


def compare(scratch: Path, *, snapshots: int = 5000, files: int = 200) -> Iterator[Comparison]:
    """5,000 snapshots that added 200 files each expire, except ten. The data files themselves do not exist."""
    folder = scratch / f"expiry-{uuid.uuid4().hex[:8]}"
    folder.mkdir(parents=True)
    make_history(connect(_uri(folder), warehouse=str(folder / "warehouse")), snapshots, files)
    done = measure(
        f"import esker\nlake = esker.connect({_uri(folder)!r}, warehouse={str(folder / 'warehouse')!r})",
        f"report = lake.table({NAME!r}).expire_snapshots(older_than=1 << 60, retain_last={KEPT})\n"
        "answer = [len(report.snapshot_ids), report.files_total]",
    )
    assert isinstance(done.answer, list)
    assert done.answer[0] == snapshots - KEPT
    yield Comparison(
        f"expiry of {done.answer[0]:,} snapshots and {done.answer[1]:,} files, in {done.seconds:.0f} s",
        f"{done.peak_bytes / 1e6:.0f} MB",
        "–",
        done.peak_bytes / MOST,
        "at most 500 MB",
        done.peak_bytes <= MOST,
    )


def _uri(folder: Path) -> str:
    return f"sqlite:///{folder}/catalog.db"


def make_history(lake: Lake, count: int, files: int) -> None:
    """The history, written without committing each snapshot of it."""
    lake.create_namespace("bench")
    table = lake.create_table(NAME, "id bigint")
    metadata, tools = table.metadata, table._at_home().tools
    made: list[Snapshot] = []
    manifests: list[ManifestFile] = []
    for number in range(1, count + 1):
        new = NewSnapshot(snapshot_id=number, parent_snapshot_id=number - 1 or None, sequence_number=number)
        entries = [
            ManifestEntry(
                data_file=_file(f"{metadata.location}/data/{number:05d}-{at:05d}.parquet"), snapshot_id=number
            )
            for at in range(files)
        ]
        place = f"{metadata.location}/metadata/{number}-m0.avro"
        data = ManifestContent.DATA
        own = tools.manifests.write_manifest(metadata, place, new, spec=metadata.spec, content=data, entries=entries)
        listed = f"{metadata.location}/metadata/snap-{number}.avro"
        tools.manifests.write_manifest_list(metadata, listed, new, new=[own], carried=manifests[-_LISTED:])
        manifests.append(own)
        made.append(
            Snapshot(
                snapshot_id=number,
                timestamp_ms=metadata.last_updated_ms + number,
                parent_snapshot_id=number - 1 or None,
                sequence_number=number,
                manifest_list=listed,
                summary={"operation": "append"},
                schema_id=0,
            )
        )
    grown = replace(
        metadata,
        snapshots=tuple(made),
        current_snapshot_id=count,
        refs={"main": SnapshotRef(snapshot_id=count, kind=RefKind.BRANCH)},
        last_sequence_number=count,
        last_updated_ms=metadata.last_updated_ms + count,
    )
    lake.catalog.swap(TableName.parse(NAME), table._state, grown)


def _file(path: str) -> DataFile:
    return DataFile(path=path, file_format="parquet", record_count=1000, file_size=12_345)
