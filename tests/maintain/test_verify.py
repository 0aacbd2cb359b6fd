"""Verifying tables: sound ones pass, and every rule finds the table that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from golden_tables import GoldenTable, catalogue
from our_tables import TABLES
from with_deletes import commit_deletes, deletion_vectors, position_delete

import esker
from esker.errors import StorageFailed
from esker.lake import Lake
from esker.maintain.tended_table import KeySet, TendedTable, path_key, place_of
from esker.maintain.verify.findings import RULES, Severity, Verification
from esker.maintain.verify.verify_table import verify
from esker.ports.table_format import EntryColumns, TableFormat
from esker.table import Table
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef
from esker.tree.table_metadata import StatisticsFile, TableMetadata


@dataclass
class Lying:
    """A table format in which a test changes what manifest lists or manifests say."""

    inner: TableFormat
    row: Callable[[ManifestFile], ManifestFile] = lambda manifest: manifest
    batch: Callable[[Entries], Entries] = lambda entries: entries
    repeats: int = 1
    only: int | None = None  # the snapshot whose list is changed; None: all

    def manifests(self, metadata: TableMetadata, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        if self.only not in (None, snapshot.snapshot_id):
            return self.inner.manifests(metadata, snapshot)
        return tuple(map(self.row, self.inner.manifests(metadata, snapshot))) * self.repeats

    def entries(
        self, metadata: TableMetadata, manifests: Sequence[ManifestFile], columns: EntryColumns
    ) -> Iterator[Entries]:
        return map(self.batch, self.inner.entries(metadata, manifests, columns))


def orders(version: int = 2, **properties: str) -> Table:
    """Two appends of a table in memory."""
    lake = esker.connect("memory:")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, x double, name string", format_version=version, properties=properties)
    for first in (0, 10):
        ids = range(first, first + 10)
        table.append({"id": list(ids), "x": [n / 2 for n in ids], "name": [f"n{n}" for n in ids]})
    return table


def found(table: Table, *, deep: bool = False, lies: Any = None, **changed: Any) -> list[str]:
    """The rules that a changed table breaks, each once."""
    return sorted(set(seen(table, deep=deep, lies=lies, **changed).counts))


def seen(table: Table, *, deep: bool = False, lies: Any = None, **changed: Any) -> Verification:
    """What verify says of a table whose metadata or format a test has changed."""
    tended = table._tended(replace(table._state, metadata=replace(table.metadata, **changed)))
    if lies is not None:
        tended = replace(tended, format=Lying(tended.format, **lies))
    return verify(tended, deep=deep)


def objects_of(table: Table) -> dict[str, tuple[bytes, int]]:
    """The objects of a storage in memory."""
    held: dict[str, tuple[bytes, int]] = table._workings.storage._objects  # type: ignore[attr-defined]
    return held


def data_file(table: Table, at: int = 0) -> str:
    path: str = table.inspect.data_files().column("file_path").to_pylist()[at]
    return path


# ---------------------------------------------------------------- sound tables


@pytest.mark.slow
@pytest.mark.parametrize("golden", catalogue(), ids=[golden.name for golden in catalogue()])
def test_golden_tables_of_every_engine_are_sound(golden: GoldenTable) -> None:
    table = esker.open_table(golden.directory)
    result = table.verify(deep=True)
    assert result.findings == (), str(result)
    assert result.snapshots == len(table.snapshots)
    assert result.files == len(set(table.inspect.all_files(columns=["file_path"]).column(0).to_pylist()))


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("make", TABLES, ids=[make.__name__ for make in TABLES])
def test_tables_that_esker_writes_are_sound(make: Callable[[Lake, int], Table], version: int) -> None:
    result = make(esker.connect("memory:"), version).verify(deep=True)
    assert result.findings == (), str(result)
    assert result.ok
    assert result.rows_read > 0 or make.__name__ == "emptied"


def test_a_table_without_snapshots_is_sound() -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("s")
    result = lake.create_table("s.t", "id bigint").verify(deep=True)
    assert (result.findings, result.files) == ((), 0)
    assert repr(result) == "<Verification of s.t: nothing wrong, 0 files>"


# ---------------------------------------------------------------- every rule


def test_f50_a_missing_data_file_is_named_once_with_the_manifest_that_lists_it() -> None:
    table = orders()
    path = data_file(table)
    table._workings.storage.delete(path)
    result = table.verify()
    assert [(f.rule, f.file) for f in result.findings] == [("missing-file", path)]
    assert "lists it" in result.findings[0].why
    assert not result.ok
    assert path in result._repr_html_()
    assert table.verify(deep=True).counts == {"missing-file": 1}


def test_f50_a_missing_manifest_list_hides_no_other_snapshot() -> None:
    table = orders()
    first = table.snapshots[0]
    assert first.manifest_list is not None
    table._workings.storage.delete(first.manifest_list)
    table._workings.storage.delete(data_file(table))
    result = table.verify()
    assert result.counts == {"missing-file": 2}
    assert (first.manifest_list, first.snapshot_id) in [(f.file, f.snapshot_id) for f in result.findings]


def test_a_corrupt_manifest_is_unreadable_and_the_others_are_checked() -> None:
    table = orders()
    paths = table.inspect.manifests().column("path").to_pylist()
    held = objects_of(table)
    held[paths[0]] = (b"no avro", 0)
    result = table.verify()
    assert result.counts["unreadable-file"] == 1
    assert result.files == 1  # of the other manifest


def test_a_file_of_another_length_is_found() -> None:
    table = orders()
    held, path = objects_of(table), data_file(table)
    held[path] = (held[path][0] + b"x", 0)
    (finding,) = table.verify().findings
    assert (finding.rule, finding.file) == ("wrong-length", path)
    assert found(orders(), lies={"row": lambda m: replace(m, length=m.length + 1)}) == ["wrong-length"]


@pytest.mark.parametrize("field", ["added_files", "existing_files", "deleted_files", "added_rows", "deleted_rows"])
def test_counts_of_lists_and_manifests_must_agree(field: str) -> None:
    def lie(manifest: ManifestFile) -> ManifestFile:
        return replace(manifest, **{field: getattr(manifest, field) - 1 if field.startswith("added") else 7})

    expected = "unreadable-file" if field in ("existing_files", "deleted_files") else "wrong-count"
    assert found(orders(), lies={"row": lie}) == [expected]  # fewer entries than listed: the end of a file is missing


OTHER_ROWS = {
    "added_rows": (9, "wrong-count"),
    "length": (7, "wrong-length"),
    "min_sequence_number": (2, "sequence-number"),
    "sequence_number": (2, "sequence-number"),
    "first_row_id": (5, "row-ids"),
}


@pytest.mark.parametrize("field", OTHER_ROWS)
def test_a_manifest_that_another_list_describes_wrongly_is_found(field: str) -> None:
    """The manifest of the first snapshot is right in the first list, and wrong in the second."""
    table = orders(version=3, **{"commit.manifest-merge.enabled": "false"})
    first = table._workings.format.manifests(table.metadata, table.snapshots[0])[0].path
    wrong, rule = OTHER_ROWS[field]

    def lie(manifest: ManifestFile) -> ManifestFile:
        return replace(manifest, **{field: wrong}) if manifest.path == first else manifest

    result = seen(table, lies={"row": lie, "only": table.snapshots[1].snapshot_id})
    assert {(finding.rule, finding.file) for finding in result.findings} == {(rule, first)}


def by_region(rows: Sequence[Any], kind: str = "string", term: str = "r") -> Table:
    """A table with a row of each region, partitioned by it."""
    lake = esker.connect("memory:")
    lake.create_namespace("s")
    table = lake.create_table("s.t", f"id bigint, r {kind}", partition_by=[term])
    table.append(pa.table({"id": pa.array(range(len(rows)), pa.int64()), "r": pa.array(rows)}))
    return table


@pytest.mark.parametrize(
    ("rows", "kind", "changed", "said"),
    [
        (["a", "c"], "string", {"upper_bound": b"b"}, "a lower highest value"),
        (["a", "c"], "string", {"lower_bound": b"b"}, "a higher lowest value"),
        (["a", None], "string", {"contains_null": False}, "no null"),
        ([1.0, float("nan")], "double", {"contains_nan": False}, "no NaN"),
        ([-3.0, 2.0], "double", {"lower_bound": bytes(8)}, "a higher lowest value"),
    ],
)
def test_partitions_must_be_within_the_summaries(
    rows: list[Any], kind: str, changed: dict[str, Any], said: str
) -> None:
    table = by_region(rows, kind)
    assert table.verify(deep=True).findings == ()

    def lie(manifest: ManifestFile) -> ManifestFile:
        assert manifest.partitions is not None
        return replace(manifest, partitions=tuple(replace(one, **changed) for one in manifest.partitions))

    (finding,) = seen(table, lies={"row": lie}).findings
    assert finding.rule == "wrong-bounds"
    assert finding.why == f"for the partition field r of its files, its manifest list records {said}"


@pytest.mark.parametrize(
    ("rows", "kind", "term", "other"),
    [
        (["a", "ab"], "string", "truncate(1, r)", "b"),
        (["a"], "string", "r", None),
        ([None], "string", "r", "a"),
        ([datetime(2026, 1, 1), datetime(2026, 1, 31)], "timestamp_ntz", "month(r)", 671),
        ([float("nan")], "double", "r", 1.0),
        ([7, 7], "bigint", "bucket(4, r)", 2),
        ([Decimal("1.25")], "decimal(9,2)", "truncate(100, r)", Decimal("2.00")),
        ([True], "boolean", "r", False),
        ([b"\x01\x02"], "binary", "truncate(1, r)", b"\x02"),
    ],
)
def test_deep_compares_the_partition_with_the_rows(rows: list[Any], kind: str, term: str, other: Any) -> None:
    table = by_region(rows, kind, term)
    assert table.verify(deep=True).findings == ()

    def moved(entries: Entries) -> Entries:
        column = entries.partition[0]
        return replace(entries, partition=(pa.array([other] * len(entries), column.type),))

    def blind(manifest: ManifestFile) -> ManifestFile:
        return replace(manifest, partitions=None)

    (finding,) = seen(table, deep=True, lies={"batch": moved, "row": blind}).findings
    assert finding.rule == "wrong-partition"
    assert f" = {other!r}, which its manifest records, by its r" in finding.why
    assert found(table, lies={"batch": moved, "row": blind}) == []  # only the rows say so


def test_totals_of_summaries_must_be_the_sums() -> None:
    table = orders()
    last = table.snapshots[-1]
    for key in ("total-data-files", "total-records", "total-files-size", "total-delete-files"):
        wrong = replace(last, summary={**last.summary, key: "7"})
        result = seen(table, snapshots=(*table.snapshots[:-1], wrong))
        assert [(f.rule, f.snapshot_id) for f in result.findings] == [("wrong-total", last.snapshot_id)], key
        assert key in result.findings[0].why
    without = replace(last, summary={"operation": "append"})
    assert found(table, snapshots=(*table.snapshots[:-1], without)) == []  # a total may be missing


def test_sequence_numbers_must_be_lawful() -> None:
    table = orders()
    first, last = table.snapshots
    assert found(table, last_sequence_number=1) == ["sequence-number"]
    assert found(table, snapshots=(first, replace(last, sequence_number=1))) == ["sequence-number"]
    assert found(table, lies={"row": lambda m: replace(m, sequence_number=9)}) == ["sequence-number"]
    higher = seen(table, lies={"row": lambda m: replace(m, min_sequence_number=m.min_sequence_number + 1)})
    assert [f.severity for f in higher.findings] == [Severity.ERROR] * 2  # deletes would miss their files
    lower = seen(table, lies={"row": lambda m: replace(m, min_sequence_number=0)})
    assert [f.severity for f in lower.findings] == [Severity.WARNING] * 2
    assert lower.ok

    def young(entries: Entries) -> Entries:
        return replace(entries, sequence_number=entries.sequence_number + 5)

    assert found(table, lies={"batch": young}) == ["sequence-number"]


def test_f53_a_file_that_a_snapshot_lists_twice_is_named() -> None:
    table = orders()
    result = seen(table, lies={"repeats": 2})
    assert {f.file for f in result.findings if f.rule == "listed-twice" and f.file.endswith(".parquet")} == {
        data_file(table, 0),
        data_file(table, 1),
    }

    def twice(entries: Entries) -> Entries:
        return entries.take(np.array([0, 0]))

    double = seen(table, lies={"batch": twice})
    assert {"listed-twice", "wrong-count", "wrong-total"} == set(double.counts)


def test_at_most_one_vector_and_no_delete_of_a_missing_file() -> None:
    table = orders(version=3)
    files = [f for e in _data(table) for f in e.data_files()]
    (vector,) = deletion_vectors(table, [(files[0], [1, 2])])
    commit_deletes(table, vector)
    assert table.verify(deep=True).findings == ()
    (second,) = deletion_vectors(table, [(files[0], [3])])
    commit_deletes(table, second)
    result = table.verify()
    assert [(f.rule, f.file) for f in result.findings] == [("two-vectors", files[0].path)]


def test_a_delete_of_a_file_that_is_gone_is_a_warning() -> None:
    table = orders()
    file = next(f for e in _data(table) for f in e.data_files())
    commit_deletes(table, position_delete(table, replace(file, path=file.path + ".gone"), [1], named=True))
    result = table.verify(deep=True)
    assert [(f.rule, f.severity) for f in result.findings] == [("dangling-delete", Severity.WARNING)]
    assert result.ok
    assert ".gone" in result.findings[0].why


def test_refs_schemas_and_specs_must_be_of_the_table() -> None:
    table = orders()
    last = table.snapshots[-1]
    lost = SnapshotRef(snapshot_id=5, kind=RefKind.TAG)
    assert found(table, refs={**table.refs, "v1": lost}) == ["unknown-snapshot"]
    assert found(table, snapshots=(*table.snapshots, last)) == ["sequence-number", "unknown-snapshot"]
    assert found(table, snapshots=(*table.snapshots[:-1], replace(last, schema_id=9))) == ["unknown-schema"]
    assert "unknown-spec" in found(table, lies={"row": lambda m: replace(m, spec_id=9)})


def test_row_ids_of_files_must_not_overlap() -> None:
    table = orders(version=3)

    def same(entries: Entries) -> Entries:
        return replace(entries, rest={**entries.rest, "first_row_id": pa.array([5] * len(entries), pa.int64())})

    result = seen(table, lies={"batch": same})
    assert [(f.rule, f.snapshot_id) for f in result.findings] == [("row-ids", table.snapshots[1].snapshot_id)]
    assert result.findings[0].file in (data_file(table, 0), data_file(table, 1))


def test_row_ids_must_not_overlap() -> None:
    table = orders(version=3)
    first, last = table.snapshots
    assert found(table) == []
    assert found(table, next_row_id=5) == ["row-ids"]
    assert found(table, snapshots=(first, replace(last, first_row_id=5))) == ["row-ids"]


def test_statistics_files_must_exist_with_their_length() -> None:
    table = orders()
    path = f"{table.location}/metadata/x.stats"
    file = StatisticsFile(snapshot_id=table.snapshots[0].snapshot_id, path=path, file_size=4, footer_size=1)
    assert found(table, statistics=(file,)) == ["missing-file"]
    table._workings.storage.write_new(path, b"12345")
    assert found(table, statistics=(file,)) == ["wrong-length"]
    assert found(table, statistics=(replace(file, file_size=5),)) == []


def test_f07_a_hint_that_is_late_is_a_warning(tmp_path: Any) -> None:
    lake = esker.connect(f"file://{tmp_path}/w")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    table.append({"id": [1]})
    assert table.verify().findings == ()
    (tmp_path / "w/s/t/metadata/version-hint.text").write_text("1")
    (finding,) = table.verify().findings
    assert (finding.rule, finding.severity) == ("stale-hint", Severity.WARNING)
    table.append({"id": [2]})  # a commit repairs it
    assert table.verify().findings == ()


# ---------------------------------------------------------------- deep


@pytest.mark.parametrize(
    ("part", "wrong", "rule"),
    [
        ("value_counts", 11, "wrong-rows"),
        ("null_counts", 1, "wrong-rows"),
        ("nan_counts", 1, "wrong-rows"),
        ("lower_bounds", None, "wrong-bounds"),
        ("upper_bounds", None, "wrong-bounds"),
    ],
)
def test_deep_compares_statistics_with_rows(part: str, wrong: int | None, rule: str) -> None:
    table = orders()

    def lie(entries: Entries) -> Entries:
        if entries.full_metrics is None:
            return entries
        maps = entries.full_metrics[part]
        changed = [[(key, _other(value, wrong)) for key, value in row] for row in maps.to_pylist()]
        return replace(entries, full_metrics={**entries.full_metrics, part: pa.array(changed, maps.type)})

    result = seen(table, deep=True, lies={"batch": lie})
    assert set(result.counts) == {rule}
    assert {f.file for f in result.findings} == {data_file(table, 0), data_file(table, 1)}
    assert found(table, lies={"batch": lie}) == []  # not without deep


def _other(value: Any, wrong: int | None) -> Any:
    return wrong if wrong is not None else value[::-1] if len(set(value)) > 1 else value


def test_deep_counts_rows_and_deletes() -> None:
    table = orders(version=3)
    file = next(f for e in _data(table) for f in e.data_files())
    (vector,) = deletion_vectors(table, [(file, [1, 2])])
    commit_deletes(table, vector)

    def lie(entries: Entries) -> Entries:
        return replace(entries, record_count=entries.record_count + 1)

    result = seen(table, deep=True, lies={"batch": lie})
    files = {f.file for f in result.findings if f.rule in ("wrong-rows", "unreadable-file")}
    assert files == {data_file(table, 0), data_file(table, 1), vector.path}


# ---------------------------------------------------------------- the walk


def test_a_storage_that_does_not_answer_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders()

    def fails(location: str) -> int:
        raise StorageFailed("cannot measure it", retryable=True, file=location)

    monkeypatch.setattr(table._workings.storage, "size", fails)
    with pytest.raises(StorageFailed):
        table.verify()


def test_each_file_and_manifest_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders()
    for n in range(20):
        table.append({"id": [n], "x": [0.0], "name": ["a"]})
    asked: list[str] = []
    size = table._workings.storage.size
    monkeypatch.setattr(table._workings.storage, "size", lambda location: (asked.append(location), size(location))[1])
    result = table.verify()
    assert (result.snapshots, result.manifests, result.files) == (22, 22, 22)
    assert len(asked) == len(set(asked)) == 44


def test_the_number_of_findings_is_bounded() -> None:
    table = orders()
    for at in (0, 1):
        table._workings.storage.delete(data_file(table, at))
    result = verify(table._tended(), most=1)
    assert (len(result.findings), result.is_cut) == (1, True)


def test_every_rule_that_is_found_is_described() -> None:
    assert all(text.endswith(".") for text in RULES.values())


def test_forms_of_one_location_have_one_key() -> None:
    assert place_of("/a/b") == place_of("file:/a/b") == place_of("file:///a//b/") == place_of("file://localhost/a/./b")
    assert place_of("s3a://b/x") == place_of("s3://b/x") != place_of("s3://c/x")
    assert path_key("s3://b/x") == path_key("hdfs://h:1/x") == path_key("/x")


def _data(table: Table) -> Iterator[Entries]:
    snapshot = table.current_snapshot
    assert snapshot is not None
    tended: TendedTable = table._tended()
    listed = tended.format.manifests(table.metadata, snapshot)
    return tended.format.entries(
        table.metadata, [m for m in listed if m.content is ManifestContent.DATA], EntryColumns(full_metrics=True)
    )


def test_a_set_of_keys_is_a_set() -> None:
    random = np.random.default_rng(7)
    keys, known = KeySet(), set()
    for _ in range(200):
        some = random.integers(-50_000, 50_000, random.integers(0, 300))
        keys.add(some)
        known |= set(some.tolist())
        asked = random.integers(-50_000, 50_000, 50)
        assert keys.has(asked).tolist() == [int(key) in known for key in asked]
    assert len(keys) == len(known)
    assert keys.has(np.array(sorted(known))).all()
