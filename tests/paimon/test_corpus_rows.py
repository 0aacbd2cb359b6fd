"""Paimon tables of other writers have the expected rows, at every snapshot, read by Arrow."""

from __future__ import annotations

import pytest
from corpus import corpus_root, of_each
from paimon_corpus import REFUSED, Case, as_text, cases

import esker
from esker.errors import Unsupported


@of_each("case", cases(), ids=str)
def test_a_table_has_the_rows_that_its_writer_put_in(case: Case) -> None:
    scan = esker.open_table(case.path).scan(snapshot_id=case.snapshot)
    assert as_text(scan.to_arrow().to_pylist()) == case.rows()
    assert scan.count() == len(case.rows())


@of_each("case", [case for case in cases() if case.snapshot is None], ids=str)
def test_some_columns_are_those_columns(case: Case) -> None:
    table = esker.open_table(case.path)
    whole = table.to_arrow()
    name = whole.column_names[-1]
    few = table.scan(columns=[name]).to_arrow()
    assert as_text(few.to_pylist()) == as_text(whole.select([name]).to_pylist())
    assert table.scan(limit=1).to_arrow().num_rows == min(1, whole.num_rows)


@of_each("name", sorted(REFUSED), ids=str)
def test_a_table_that_cannot_be_read_right_is_refused_by_its_option(name: str) -> None:
    table = esker.open_table(corpus_root() / "paimon" / name)
    with pytest.raises(Unsupported, match=REFUSED[name]):
        table.to_arrow()


@of_each("name", ["py.db/append_part", "java.db/jappend", "java.db/jpk", "spark.db/s_pk", "spark.db/s_append"], ids=str)
def test_a_filter_finds_the_rows_that_a_full_read_finds(name: str) -> None:
    """Every value of every column is asked for, so a bound, a partition or a key that skips too much shows."""
    table = esker.open_table(corpus_root() / "paimon" / name)
    whole = table.to_arrow()
    for column in whole.schema:
        if not str(column.type).startswith(("int", "string", "bool")):
            continue
        for value in sorted(set(whole[column.name].to_pylist()), key=str)[:4]:
            term = "IS NULL" if value is None else f"= {value!r}" if not isinstance(value, bool) else f"= {value}"
            found = table.scan(f"{column.name} {term}").to_arrow().to_pylist()
            assert as_text(found) == as_text([row for row in whole.to_pylist() if row[column.name] == value])
            if value is not None and not isinstance(value, bool):
                found = table.scan(f"{column.name} > {value!r}").to_arrow().to_pylist()
                more = [row for row in whole.to_pylist() if row[column.name] is not None and row[column.name] > value]
                assert as_text(found) == as_text(more)


def test_a_partition_and_a_key_leave_out_files() -> None:
    table = esker.open_table(corpus_root() / "paimon" / "spark.db" / "s_pk")
    everything = table.scan().plan().funnel
    day = table.to_arrow()["dt"][0].as_py()
    funnel = table.scan(f"dt = '{day}'").plan().funnel
    assert 0 < funnel.files_kept < everything.files_kept
    assert table.scan("id = 5000").plan().funnel.files_kept == 0
    assert "files" in table.scan("id = 5000").explain()


def test_the_first_and_the_last_key_are_bounds_where_a_writer_recorded_no_others() -> None:
    table = esker.open_table(corpus_root() / "paimon" / "py.db" / "pk_dedup")
    assert table.scan("id = 5000").plan().funnel.files_kept == 0
    assert table.scan("id = 1").plan().funnel.files_kept > 0


def test_a_warehouse_is_a_catalog() -> None:
    lake = esker.connect(f"paimon://{corpus_root() / 'paimon'}")
    assert "java" in lake.namespaces()
    assert "java.jpk" in lake.tables("java")
    assert lake.table("java.jpk").to_arrow().num_rows == 4
    with pytest.raises(esker.NoSuchTable, match=r"did you mean java\.jpk"):
        lake.table("java.jpkk")


def test_a_tag_and_a_time_are_read_with_the_schema_of_that_time() -> None:
    table = esker.open_table(corpus_root() / "paimon" / "py.db" / "append_part")
    assert table.scan(ref="v4").count() == 7
    first = table.snapshots[0]
    early = table.scan(as_of=first.timestamp_ms).to_arrow()
    assert early.num_rows == 3
    assert "name" in early.column_names
    assert "full_name" in table.to_arrow().column_names


def test_metadata_tables_show_the_fields_of_the_format() -> None:
    inspect = esker.open_table(corpus_root() / "paimon" / "java.db" / "jdv").inspect
    entries = inspect.entries()
    assert {"kind", "bucket", "totalBuckets", "minKey", "maxKey", "level", "extraFiles", "embeddedIndex"} < set(
        entries.column_names
    )
    assert set(entries["kind"].to_pylist()) == {"ADD", "DELETE"}
    assert set(inspect.files()["level"].to_pylist()) == {5}
    assert inspect.snapshots()["commitKind"].to_pylist() == ["APPEND", "COMPACT"] * 3
    assert inspect.manifests()["numAddedFiles"].to_pylist()
    assert ("deletion-vectors.enabled", "true") in list(zip(*inspect.options().to_pydict().values(), strict=True))
    indexed = esker.open_table(corpus_root() / "paimon" / "java.db" / "jfidx").inspect.files()
    assert indexed["extraFiles"][0].as_py()
    with pytest.raises(esker.InvalidInput, match="no column"):
        inspect.files(columns=["nothing"])
