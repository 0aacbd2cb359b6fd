"""Reading Paimon tables that were made file by file: branches, hints, levels, formats, options, evolution."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from paimon_tables import PaimonTable, schema, versions

import esker
from esker.errors import NoSuchTable, Unsupported
from esker.paimon.manifests.index_manifest import VECTORS, IndexEntry, encode_index_manifest
from esker.paimon.manifests.manifest import FileEntry, Kind
from esker.paimon.rows.binary_row import NO_FIELDS
from esker.paimon.rows.deletion_vector import encode_vector_file

KEYED = {"k": "BIGINT NOT NULL", "v": "STRING"}


def rows(table: PaimonTable, **how: object) -> list[tuple[object, ...]]:
    found = esker.open_table(table.path).scan(**how).to_arrow()  # type: ignore[arg-type]
    return sorted(tuple(row.values()) for row in found.to_pylist())


def plain(table: PaimonTable, numbers: list[int]) -> FileEntry:
    return table.file(pa.table({"a": pa.array(numbers, pa.int64())}))


@pytest.fixture
def keyed(tmp_path: Path) -> PaimonTable:
    table = PaimonTable(tmp_path / "t", schema(KEYED, keys=["k"], bucket="1"))
    table.append(versions([1, 2, 3], 0, v=["a", "b", "c"]))
    table.append(versions([2, 3], 3, kind=[2, 3], v=["B", None]))
    return table


# ---------------------------------------------------------------- Snapshots, hints and branches


@pytest.mark.parametrize("hint", ["", "1", "7", "no number", None])
def test_the_newest_snapshot_is_found_whatever_the_hint_says(keyed: PaimonTable, hint: str | None) -> None:
    if hint is not None:
        (keyed.path / "snapshot" / "LATEST").write_text(hint)
    assert rows(keyed) == [(1, "a"), (2, "B")]


def test_a_branch_has_snapshots_and_columns_of_its_own(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", schema({"a": "BIGINT"}))
    table.commit(plain(table, [1]))
    other = table.fork("dev")
    other.define(schema({"a": "BIGINT", "b": "STRING"}, id_=1))
    other.append(pa.table({"a": pa.array([7], pa.int64()), "b": ["x"]}))
    table.commit(plain(table, [2]))
    assert rows(table) == [(1,), (2,)]
    assert rows(table, ref="dev") == [(1, None), (7, "x")]
    opened = esker.open_table(table.path)
    assert opened.inspect.branches()["branchName"].to_pylist() == ["dev"]
    assert opened.scan("b = 'x'", ref="dev").to_arrow().num_rows == 1
    ids = [snapshot.snapshot_id for snapshot in opened.snapshots]
    assert len(set(ids)) == len(ids)


def test_a_tag_keeps_a_snapshot_that_has_expired(keyed: PaimonTable) -> None:
    tag = keyed.path / "tag" / "tag-first"
    tag.parent.mkdir()
    shutil.copy(keyed.path / "snapshot" / "snapshot-1", tag)
    (keyed.path / "snapshot" / "snapshot-1").unlink()
    assert rows(keyed, ref="first") == [(1, "a"), (2, "b"), (3, "c")]
    assert esker.open_table(keyed.path).inspect.tags()["tagName"].to_pylist() == ["first"]


def test_a_table_sees_new_snapshots_after_a_refresh(keyed: PaimonTable) -> None:
    table = esker.open_table(keyed.path)
    keyed.append(versions([9], 9, v=["new"]))
    assert table.scan("k = 9").count() == 0
    assert table.refresh().scan("k = 9").count() == 1


def test_a_directory_without_a_schema_is_no_table(tmp_path: Path) -> None:
    lake = esker.connect(f"paimon://{tmp_path}")
    assert lake.namespaces() == []
    with pytest.raises(NoSuchTable):
        lake.table("a.b")


# ---------------------------------------------------------------- Levels, vectors and files that are not seen


def test_files_of_a_postponed_bucket_are_not_seen(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", schema(KEYED, keys=["k"], bucket="-2"))
    table.append(versions([1], 0, v=["a"]), bucket=-2)
    assert rows(table) == []
    table.append(versions([2], 1, v=["b"]), level=5)
    assert rows(table) == [(2, "b")]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("on_read", ["true", "false"])
def test_vectors_hide_rows_and_new_files_are_seen_if_the_table_merges_on_read(
    tmp_path: Path, wide: bool, on_read: str
) -> None:
    made = schema(KEYED, keys=["k"], deletion_vectors__enabled="true", deletion_vectors__merge_on_read=on_read)
    table = PaimonTable(tmp_path / "t", made)
    old = table.file(versions([1, 2, 3], 0, v=["a", "b", "c"]), level=5)
    new = table.file(versions([3, 4], 3, v=["C", "d"]))
    data, ranges = encode_vector_file({"other": [5, 6], old.file.name: [1]}, wide=wide)
    (table.path / "index").mkdir()
    (table.path / "index" / "index-1").write_bytes(data)
    index = IndexEntry(
        partition=NO_FIELDS, bucket=0, index_type=VECTORS, name="index-1", size=len(data), rows=2, ranges=ranges
    )
    (table.path / "manifest").mkdir()
    (table.path / "manifest" / "index-manifest-1").write_bytes(encode_index_manifest([index]))
    table.commit(old, new, index="index-manifest-1")
    merged = [(1, "a"), (3, "C"), (4, "d")]
    assert rows(table) == (merged if on_read == "true" else [(1, "a"), (3, "c")])
    assert esker.open_table(table.path).scan().plan().funnel.deletes_kept == 2


def test_a_key_range_of_its_own_is_not_merged_and_its_values_leave_it_out(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", schema(KEYED, keys=["k"], bucket="1"))
    table.commit(
        table.file(versions([1, 2], 0, v=["a", "b"])),
        table.file(versions([2, 3], 2, v=["B", "c"])),
        table.file(versions([8, 9], 4, kind=[0, 3], v=["x", None])),
    )
    plan = esker.open_table(table.path).scan().plan()
    groups = [task.data_file.merge_group for task in plan.tasks]
    assert groups[0] == groups[1] != groups[2]
    assert rows(table) == [(1, "a"), (2, "B"), (3, "c"), (8, "x")]
    assert rows(table, where="v = 'b'") == []


# ---------------------------------------------------------------- Formats and evolution


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_each_format_of_data_files_is_read_and_merged(tmp_path: Path, file_format: str) -> None:
    table = PaimonTable(tmp_path / "t", schema(KEYED, keys=["k"], bucket="1"))
    table.append(versions([1, 2], 0, v=["a", "b"]), file_format=file_format)
    table.append(versions([2, 3], 2, v=["B", "c"]))
    assert rows(table) == [(1, "a"), (2, "B"), (3, "c")]
    assert rows(table, columns=["v"]) == [("B",), ("a",), ("c",)]


def test_columns_are_found_by_id_in_the_schema_of_their_file(tmp_path: Path) -> None:
    """``a`` and ``b`` exchange their names, and a third column takes the name of a dropped one."""
    table = PaimonTable(tmp_path / "t", schema({"a": "INT", "b": "STRING", "c": "INT"}))
    table.append(pa.table({"a": pa.array([1], pa.int32()), "b": ["x"], "c": pa.array([5], pa.int32())}))
    table.define(schema({"b": "BIGINT", "a": "STRING", "c": "STRING"}, id_=1, ids=[0, 1, 3]))
    table.append(pa.table({"b": pa.array([2], pa.int64()), "a": ["y"], "c": ["new"]}))
    assert rows(table) == [(1, "x", None), (2, "y", "new")]
    assert rows(table, where="b = 1") == [(1, "x", None)]
    assert rows(table, snapshot_id=1) == [(1, "x", 5)]


def test_ids_inside_of_a_file_are_not_used(keyed: PaimonTable) -> None:
    """Newer writers give ids to the columns for the order of versions too, which mean other columns in Iceberg."""
    ids = {"_KEY_k": 1073741823, "_SEQUENCE_NUMBER": 2147483646, "_VALUE_KIND": 2147483645, "k": 0, "v": 1}
    rows_with_ids = versions([1, 4], 9, v=["A", "d"])
    fields = [field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) for field in rows_with_ids.schema]
    keyed.append(rows_with_ids.cast(pa.schema(fields)))
    assert rows(keyed) == [(1, "A"), (2, "B"), (4, "d")]


def test_a_column_without_a_required_value_in_old_files_is_null(keyed: PaimonTable) -> None:
    keyed.define(replace(schema({**KEYED, "n": "INT"}, id_=1, keys=["k"]), options=keyed.schema.options))
    assert rows(keyed) == [(1, "a", None), (2, "B", None)]


# ---------------------------------------------------------------- What is refused


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("merge-engine", "newest"),
        ("data-evolution.enabled", "true"),
        ("type", "format-table"),
        ("sequence.snapshot-ordering", "true"),
        ("pk-clustering-override", "true"),
        ("data-file.path-directory", "data"),
        ("sequence.field.sort-order", "random"),
        ("scan.fallback-branch", "dev"),
        ("scan.snapshot-id", "1"),
    ],
)
def test_an_option_that_changes_reads_is_refused_by_name(keyed: PaimonTable, option: str, value: str) -> None:
    keyed.define(replace(keyed.schema, options={**keyed.schema.options, option: value}))
    table = esker.open_table(keyed.path)
    with pytest.raises(Unsupported, match=option) as raised:
        table.to_arrow()
    assert raised.value.feature == option


def test_an_unknown_aggregate_is_refused_by_name(keyed: PaimonTable) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"}
    keyed.define(replace(keyed.schema, options=options))
    with pytest.raises(Unsupported, match=r"fields\.v\.aggregate-function is 'listagg'"):
        esker.open_table(keyed.path).to_arrow()


def test_what_needs_a_history_of_rows_is_refused(keyed: PaimonTable) -> None:
    table = esker.open_table(keyed.path)
    with pytest.raises(Unsupported, match="changes"):
        table.scan_changes(None)
    with pytest.raises(Unsupported, match="verify"):
        table.verify()
    with pytest.raises(Unsupported, match="_file"):
        table.scan(columns=["_file"]).to_arrow()


def test_a_file_that_was_deleted_is_not_read(keyed: PaimonTable) -> None:
    first = keyed.file(versions([7], 9, v=["x"]))
    keyed.commit(first)
    keyed.commit(replace(first, kind=Kind.DELETE), kind="OVERWRITE")
    assert rows(keyed) == [(1, "a"), (2, "B")]
    assert [operation["commitKind"] for operation in esker.open_table(keyed.path).inspect.snapshots().to_pylist()] == [
        "APPEND",
        "APPEND",
        "APPEND",
        "OVERWRITE",
    ]


def test_a_plan_does_not_import_pandas(tmp_path: Path) -> None:
    """It takes a second, which is more than the plan of 100,000 files. Arrow imports it to convert a text of Python."""
    table = PaimonTable(tmp_path / "db.db/t", schema({"k": "BIGINT NOT NULL", "v": "STRING"}, keys=["k"], bucket="1"))
    table.append(versions([1, 2], 0, v=["a", "b"]))
    table.append(versions([2, 3], 5, v=["c", "d"]))
    script = f"""
import sys, esker
tasks = list(esker.open_table({str(table.path)!r}).scan("k > 1").plan().tasks)
print(len(tasks), "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "False"]
