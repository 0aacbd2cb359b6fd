"""Planning a Paimon table of 100,000 files in 100 manifests, beside pypaimon in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Comparison
from esker.paimon.manifests.manifest import FileEntry, FileMeta, Kind, encode_manifest
from esker.paimon.manifests.manifest_list import ManifestMeta, SimpleStats, encode_manifest_list
from esker.paimon.manifests.statistics import simple_stats
from esker.paimon.metadata.snapshot import BATCH, PaimonSnapshot, encode_snapshot
from esker.paimon.metadata.table_schema import TableSchema, encode_schema
from esker.paimon.metadata.types import DataField, decode_type
from esker.paimon.rows.binary_row import encode_row

PYPAIMON = "pypaimon==2.1.0"
COLUMNS = 10
_TURNS = 3
_OURS = """
import json, sys, time
import esker
list(esker.connect("paimon://" + sys.argv[2]).table("db.t").scan({where!r}).plan().tasks)
table = esker.connect("paimon://" + sys.argv[1]).table("db.t")
began, cpu = time.perf_counter(), time.process_time()
plan = table.scan({where!r}).plan()
tasks = list(plan.tasks)
print(json.dumps([time.perf_counter() - began, time.process_time() - cpu, len(tasks)]))
"""
_THEIRS = """
import json, sys, time
from pypaimon import CatalogFactory
def planner(warehouse):
    builder = CatalogFactory.create({{"warehouse": warehouse}}).get_table("db.t").new_read_builder()
    {filter}
    return builder.new_scan()
planner(sys.argv[2]).plan().splits()
scan = planner(sys.argv[1])
began, cpu = time.perf_counter(), time.process_time()
splits = scan.plan().splits()
files = sum(len(split.files) for split in splits)
print(json.dumps([time.perf_counter() - began, time.process_time() - cpu, files]))
"""
_FILTER = """
    made = builder.new_predicate_builder()
    terms = [made.greater_or_equal("c0", 500000), made.less_than("c0", 600000)]
    builder = builder.with_filter(made.and_predicates(terms))
"""


def compare(scratch: Path, *, manifests: int = 100, files: int = 1000) -> Iterator[Comparison]:
    """A full plan, and a plan on a column predicate. Both sides take turns; the best of each counts. Each has planned a
    table of one file before, so that the time of imports does not count."""
    small = synthesise(scratch / "paimon-1x1", manifests=1, files=1)
    warehouse = synthesise(scratch / f"paimon-{manifests}x{files}", manifests=manifests, files=files)
    python = _python_of_pypaimon(scratch)
    cases = (("full plan", None, ""), ("plan on a column predicate", "c0 >= 500000 AND c0 < 600000", _FILTER))
    for what, where, their_filter in cases:
        ours, theirs = [], []
        for _ in range(_TURNS):
            ours.append(_run(sys.executable, _OURS.format(where=where), warehouse, small))
            theirs.append(_run(python, _THEIRS.format(filter=their_filter), warehouse, small))
        mine, other = min(ours), min(theirs)
        if mine[2] != other[2]:
            raise RuntimeError(f"the plans differ: {mine[2]} files and {other[2]}")
        ratio = min(one[1] for one in theirs) / min(one[1] for one in ours)
        yield Comparison(
            f"{what} of a Paimon table with {manifests * files:,} files ({mine[2]:,} kept), {PYPAIMON}, CPU seconds",
            f"{min(one[1] for one in ours):.2f} s ({mine[0]:.2f} s in all)",
            f"{min(one[1] for one in theirs):.2f} s ({other[0]:.2f} s in all)",
            ratio,
            "at least 5 times as fast",
            ratio >= 5,
        )


def _run(python: str, script: str, *warehouses: Path) -> tuple[float, float, int]:
    import json

    done = subprocess.run([python, "-c", script, *map(str, warehouses)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"a measurement failed:\n{done.stderr}")
    seconds, cpu, answer = json.loads(done.stdout.strip().splitlines()[-1])
    return seconds, cpu, answer


def _python_of_pypaimon(scratch: Path) -> str:
    """The interpreter of an environment with pypaimon: ``$ESKER_PYPAIMON``, or one that is made here. It needs other
    versions of Arrow and pandas than Esker."""
    if given := os.environ.get("ESKER_PYPAIMON"):
        return given
    place = scratch / "pypaimon"
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", PYPAIMON], check=True)
    return str(python)


def synthesise(warehouse: Path, *, manifests: int, files: int) -> Path:
    """A warehouse with the metadata of one append table: ten columns of statistics, and no data files."""
    table = warehouse / "db.db" / "t"
    if (table / "snapshot" / "snapshot-1").exists():
        return warehouse
    types = [decode_type("BIGINT")] * COLUMNS
    fields = tuple(DataField(id=at, name=f"c{at}", type=types[at]) for at in range(COLUMNS))
    schema = TableSchema(id=0, fields=fields, highest_field_id=COLUMNS - 1, options={"bucket": "-1"})
    _write(table / "schema" / "schema-0", encode_schema(schema))
    listed = []
    for manifest in range(manifests):
        data = encode_manifest(_entry(manifest * files + at, types, manifests * files) for at in range(files))
        name = f"manifest-{manifest:08}-0000-0000-0000-000000000000-0"
        _write(table / "manifest" / name, data)
        listed.append(
            ManifestMeta(
                name=name,
                size=len(data),
                added_files=files,
                deleted_files=0,
                partition_stats=SimpleStats(min_values=encode_row([], []), max_values=encode_row([], [])),
                schema_id=0,
            )
        )
    _write(table / "manifest" / "manifest-list-a-0", encode_manifest_list(listed))
    _write(table / "manifest" / "manifest-list-a-1", encode_manifest_list([]))
    snapshot = PaimonSnapshot(
        id=1,
        schema_id=0,
        base_manifest_list="manifest-list-a-0",
        delta_manifest_list="manifest-list-a-1",
        commit_user="bench",
        commit_identifier=BATCH,
        commit_kind="APPEND",
        time_millis=1_700_000_000_000,
        total_record_count=manifests * files * 1000,
        delta_record_count=manifests * files * 1000,
    )
    _write(table / "snapshot" / "snapshot-1", encode_snapshot(snapshot))
    _write(table / "snapshot" / "LATEST", b"1")
    _write(table / "snapshot" / "EARLIEST", b"1")
    return warehouse


def _entry(number: int, types: list[object], total: int) -> FileEntry:
    low = number * 1_000_000 // total
    bounds = [low + at for at in range(COLUMNS)]
    stats = simple_stats(types, bounds, [bound + 9 for bound in bounds], [0] * COLUMNS)  # type: ignore[arg-type]
    file = FileMeta(
        name=f"data-{number:08}-0000-0000-0000-000000000000-0.parquet",
        size=1_000_000,
        rows=1000,
        value_stats=stats,
        max_sequence=999,
        creation_ms=1_700_000_000_000,
        delete_rows=0,
        source=0,
    )
    return FileEntry(kind=Kind.ADD, partition=encode_row([], []), bucket=0, total_buckets=-1, file=file)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
