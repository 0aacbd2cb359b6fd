"""Writing Paimon tables through a lake: rows, keys, partitions, refusals, and several writers at once."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paimon_tables import PaimonTable, schema

import esker
from esker.errors import AlreadyExists, Conflict, InvalidInput, OutcomeUnknown, StorageFailed, Unsupported
from esker.lake import Lake
from esker.paimon.metadata.layout import Layout
from esker.paimon.read_table import read_schemas
from esker.paimon.write.publish_snapshot import current_state
from esker.paimon.write.put_rows import Writer
from esker.ports.row_changes import RowChange
from esker.storage.local import LocalStorage


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"paimon://{tmp_path}/warehouse")


def rows(table: Any, **more: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(**more).to_arrow().to_pylist(), key=repr)


def keyed(lake: Lake, name: str = "db.keyed", buckets: int = 2, **options: str) -> Any:
    return lake.create_table(
        name,
        "id bigint not null, v string",
        identifier_fields=["id"],
        properties={"bucket": str(buckets), **options},
    )


def files_of(table: Any) -> list[Path]:
    return sorted(Path(table.location).rglob("data-*.parquet"))


def test_rows_come_back_with_all_types_and_null_partitions(lake: Lake) -> None:
    table = lake.create_table(
        "db.t", "id bigint, p string, d decimal(38, 10), ts timestamp, day date, tags array<string>", partition_by=["p"]
    )
    data = pa.table(
        {
            "id": [1, 2, 3],
            "p": ["a/b", None, ""],
            "d": pa.array([Decimal("1.5"), None, Decimal(-7)], pa.decimal128(38, 10)),
            "ts": pa.array([0, None, -1], pa.timestamp("us", tz="UTC")),
            "day": pa.array([0, None, -400], pa.date32()),
            "tags": [["x"], None, []],
        }
    )
    snapshot = table.append(data)
    assert snapshot is not None
    assert (snapshot.snapshot_id, snapshot.summary["commit-kind"]) == (1, "APPEND")
    assert rows(table) == sorted(data.to_pylist(), key=repr)
    assert [row["id"] for row in rows(table, where="p is null")] == [2]
    assert [row["id"] for row in rows(table, where="p = 'a/b'")] == [1]


def test_a_key_has_its_last_row_and_deletes_hide_it(lake: Lake) -> None:
    table = keyed(lake)
    table.append({"id": [1, 2, 3, 1], "v": ["a", "b", "c", "later"]})
    table.upsert({"id": [2, 4], "v": ["B", "d"]}, on=["id"])
    assert rows(table) == [{"id": i, "v": v} for i, v in ((1, "later"), (2, "B"), (3, "c"), (4, "d"))]
    table.delete("v = 'c' or id = 1")
    assert [row["id"] for row in rows(table)] == [2, 4]
    table.append({"id": [3], "v": ["again"]})
    assert rows(table, where="id = 3") == [{"id": 3, "v": "again"}]
    assert [row["id"] for row in rows(table, snapshot_id=1)] == [1, 2, 3]
    assert table.delete("id = 99").snapshot_id == 4  # nothing matched, nothing was committed


def test_properties_name_the_key_and_the_partitions_as_in_java(lake: Lake) -> None:
    options = {"primary-key": "p, id", "partition": "p", "bucket": "2", "snapshot.num-retained.min": "5"}
    table = lake.create_table("db.t", "id bigint, p int, v string", properties=options)
    [file] = read_schemas(LocalStorage(roots=(table.location,)), Layout(table.location)).values()
    assert (file.primary_keys, file.partition_keys) == (("p", "id"), ("p",))
    assert file.options == {"bucket": "2", "snapshot.num-retained.min": "5"}  # Java takes the others out, too
    assert [field.required for field in table.schema.fields] == [True, True, False]
    table.append({"id": [1, 2], "p": [1, 1], "v": ["a", "b"]})
    table.upsert({"id": [1], "p": [1], "v": ["A"]}, on=["id", "p"])
    assert rows(table) == [{"id": 1, "p": 1, "v": "A"}, {"id": 2, "p": 1, "v": "b"}]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"primary-key": "id"}, "a primary key and bucket -1: .* give the property bucket, such as 'bucket' = '4'"),
        ({"primary-key": "id", "bucket": "-2"}, "a primary key and bucket -2: .* give the property bucket"),
        ({"bucket": "2"}, "bucket 2 and no key: give the property primary-key, or bucket-key"),
        ({"bucket": "two"}, "bucket 'two': give a whole number"),
        ({"primary-key": "ID", "bucket": "1"}, "primary-key 'ID': it is no column; the columns are id, s"),
        ({"primary-key": "s", "bucket": "1"}, "primary-key 's': its type is struct"),
        ({"primary-key": "id,id", "bucket": "1"}, "primary-key 'id, id': name each column once"),
        ({"primary-key": " ", "bucket": "1"}, "primary-key '': name each column once"),
        ({"partition": "day"}, "partition 'day': it is no column"),
    ],
    ids=str,
)
def test_a_key_that_cannot_be_is_refused_with_what_to_give(lake: Lake, options: dict[str, str], match: str) -> None:
    with pytest.raises((InvalidInput, Unsupported), match=f"cannot create a table with {match}"):
        lake.create_table("db.t", "id bigint, s struct<a: int>", properties=options)
    assert lake.namespaces() == []


def test_a_key_is_given_once(lake: Lake) -> None:
    options = {"bucket": "1", "primary-key": "a"}
    with pytest.raises(InvalidInput, match="primary-key 'a': it is also given as 'b'; give it once"):
        lake.create_table("db.t", "a int not null, b int not null", identifier_fields=["b"], properties=options)
    table = lake.create_table("db.t", "a int not null, b int", identifier_fields=["a"], properties=options)
    assert table.append({"a": [1, 1], "b": [1, 2]}) is not None
    assert rows(table) == [{"a": 1, "b": 2}]


def counts(snapshot: Any) -> tuple[int | None, ...]:
    return snapshot.rows_inserted, snapshot.rows_updated, snapshot.rows_deleted


def test_a_snapshot_counts_the_rows_that_its_commit_changed(lake: Lake) -> None:
    """In a table without a key each new row is inserted. An overwrite records only the difference."""
    table = lake.create_table("db.log", "id bigint")
    assert counts(table.append({"id": [1, 2, 2]})) == (3, 0, 0)
    assert counts(table.append({"id": [3]})) == (1, 0, 0)
    table.compact()
    assert counts(table.current_snapshot) == (0, 0, 0)
    assert counts(table.overwrite({"id": [5, 6, 7, 8, 9]})) == (None, None, None)
    with table.transaction() as tx:
        tx.append({"id": [4, 5]})
    assert counts(tx.snapshot) == (2, 0, 0)
    assert [counts(snapshot)[0] for snapshot in table.snapshots] == [3, 1, 0, None, 2]


def test_versions_of_keys_and_deleted_positions_are_not_counted_as_rows(lake: Lake, tmp_path: Path) -> None:
    table = keyed(lake)
    assert counts(table.append({"id": [1, 2], "v": ["a", "b"]})) == (None, None, None)
    assert counts(table.upsert({"id": [2], "v": ["B"]})) == (None, None, None)
    assert counts(table.delete("id = 1")) == (None, None, None)
    table.compact()
    assert counts(table.current_snapshot) == (0, 0, 0)
    vectors = PaimonTable(tmp_path / "v", schema({"a": "INT"}, **{"deletion-vectors.enabled": "true"}))
    vectors.append(pa.table({"a": pa.array([1], pa.int32())}))
    plain = PaimonTable(tmp_path / "p", schema({"a": "INT"}))
    plain.commit()  # no rows: old versions of Paimon committed an UPDATE so
    for made in (vectors, plain):
        assert counts(esker.open_table(made.path).current_snapshot) == (None, None, None)


def test_snapshots_of_tags_and_branches_count_their_rows(tmp_path: Path) -> None:
    made = PaimonTable(tmp_path / "t", schema({"a": "INT"}))
    made.append(pa.table({"a": pa.array([1, 2], pa.int32())}))
    made.fork("side").append(pa.table({"a": pa.array([1, 2, 3], pa.int32())}))
    (made.path / "tag").mkdir()
    (made.path / "snapshot/snapshot-1").rename(made.path / "tag/tag-first")
    table = esker.open_table(made.path)
    found = {name: counts(table.metadata.snapshot(ref.snapshot_id)) for name, ref in table.refs.items()}
    assert found == {"first": (2, 0, 0), "side": (3, 0, 0)}


def test_a_transaction_is_one_change(lake: Lake) -> None:
    key = {"identifier_fields": ["id"], "properties": {"bucket": "1"}}
    table = lake.create_table("db.t", "id bigint not null, v string", **key)
    with table.transaction() as tx:
        tx.append({"id": [1, 2, 3], "v": ["a", "b", "c"]})
        assert table.refresh().current_snapshot is None
    assert (tx.snapshot.snapshot_id, tx.snapshot.rows_inserted) == (1, None)  # it may have replaced rows
    with table.transaction() as tx:
        tx.delete("id < 3")
    assert (tx.snapshot.rows_inserted, tx.snapshot.rows_deleted) == (0, 2)
    with table.transaction() as tx:
        tx.delete("id = 77")
    assert tx.snapshot is None
    tx = table.transaction()
    tx.append({"id": [4], "v": ["d"]})  # is never done: its block has ended
    for wrong, match in (
        (lambda: tx.delete("id = 3"), "two changes of db.t in one snapshot"),
        (lambda: tx.overwrite({"id": [4]}, "id = 3"), "cannot use where"),
        (lambda: tx.evolve([]), "cannot use evolve in a transaction"),
        (lambda: tx.apply(RowChange(verb="update")), "cannot update db.t"),
    ):
        with pytest.raises(Unsupported, match=match):
            wrong()
    assert table.refresh().to_arrow().to_pylist() == [{"id": 3, "v": "c"}]


@pytest.mark.parametrize("option", [{"rewrite_all": True}, {"where": "id = 1"}, {"strategy": "sort"}], ids=str)
def test_an_option_of_other_tables_is_refused(lake: Lake, option: dict[str, Any]) -> None:
    table = lake.create_table("db.t", "id bigint")
    with pytest.raises(Unsupported, match=f"cannot use {next(iter(option))} for db.t"):
        table.compact(**option)
    with pytest.raises(Unsupported, match="cannot use snapshot_ids"):
        table.expire_snapshots(snapshot_ids=[1])


def test_zero_and_negative_zero_are_one_key(tmp_path: Path) -> None:
    """Java compares keys by larger and smaller, and reads a file as if each of its keys were there once."""
    made = PaimonTable(tmp_path / "t", schema({"k": "DOUBLE NOT NULL", "v": "STRING"}, keys=["k"], bucket="1"))
    table = esker.open_table(made.path)
    table.append({"k": [0.0, -0.0, 1.0], "v": ["a", "b", "c"]})
    assert [file["rowCount"] for file in table.inspect.files().to_pylist()] == [2]
    table.append({"k": [0.0, math.nan], "v": ["d", "x"]})
    table.append({"k": [-0.0, math.nan], "v": ["e", "y"]})
    assert sorted(table.to_arrow()["v"].to_pylist()) == ["c", "e", "y"]
    table.compact()
    assert sorted(table.to_arrow()["v"].to_pylist()) == ["c", "e", "y"]


def test_a_decimal_of_many_digits_has_no_dictionary(lake: Lake) -> None:
    """Java would not find such a decimal in a dictionary, and leave out its rows."""
    table = lake.create_table(
        "db.wide", "d38 decimal(38,2), d18 decimal(18,2), l array<decimal(20,0)>, r struct<a: decimal(19,0), b: int>"
    )
    table.append(pa.table({"d38": [Decimal("1.25")] * 9}, pa.schema([("d38", pa.decimal128(38, 2))])))
    [file] = Path(table.location).glob("bucket-0/*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    encoded = {group.column(at).path_in_schema: group.column(at).has_dictionary_page for at in range(group.num_columns)}
    plain = {path for path, has_dictionary in encoded.items() if not has_dictionary}
    assert plain == {"d38", "l.list.element", "r.a"}


def test_a_file_records_its_deletes_keys_and_sequence_numbers(lake: Lake) -> None:
    table = keyed(lake, buckets=1)
    table.append({"id": [5, 3], "v": ["a", "b"]})
    table.delete("id = 3")
    files = table.inspect.files().to_pylist()
    assert [(file["deleteRowCount"], file["level"], file["minSequenceNumber"]) for file in files] == [
        (0, 0, 0),
        (1, 0, 1),
    ]
    first = pq.read_table(next(file for file in files_of(table) if pq.read_metadata(file).num_rows == 2))
    assert first.column_names == ["_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", "id", "v"]
    assert first["id"].to_pylist() == [3, 5]  # sorted by key


def test_overwriting_replaces_partitions_or_everything(lake: Lake) -> None:
    table = lake.create_table("db.t", "id bigint, p int", partition_by=["p"])
    table.append({"id": [1, 2, 3], "p": [1, 2, 3]})
    table.overwrite_partitions({"id": [20, 30], "p": [2, 3]})
    assert [row["id"] for row in rows(table)] == [1, 20, 30]
    table.overwrite({"id": [9], "p": [9]})
    assert rows(table) == [{"id": 9, "p": 9}]
    table.overwrite(pa.table({"id": pa.array([], pa.int64()), "p": pa.array([], pa.int32())}))
    assert rows(table) == []
    assert [row["id"] for row in rows(table, snapshot_id=2)] == [1, 20, 30]


@settings(max_examples=10, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("append", "delete", "compact", "overwrite")),
            st.dictionaries(st.integers(0, 6), st.sampled_from("abc"), max_size=5),
        ),
        max_size=8,
    )
)
def test_any_history_equals_a_dictionary(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    lake = esker.connect(f"paimon://{tmp_path_factory.mktemp('history')}")
    table, expected = keyed(lake, buckets=2), {}
    for verb, values in steps:
        data = pa.table({"id": pa.array(list(values), pa.int64()), "v": pa.array(list(values.values()), pa.string())})
        match verb:
            case "append":
                table.append(data)
                expected |= values
            case "overwrite":
                table.overwrite(data)
                expected = dict(values)
            case "delete" if values:
                table.delete(" or ".join(f"id = {key}" for key in values))
                expected = {key: value for key, value in expected.items() if key not in values}
            case "compact":
                table.compact()
        assert {row["id"]: row["v"] for row in rows(table)} == expected
        pruned = rows(table, where="id between 2 and 4")
        assert {row["id"] for row in pruned} == {key for key in expected if 2 <= key <= 4}


def test_manifests_are_merged_and_every_file_stays(lake: Lake) -> None:
    table = keyed(lake, buckets=1, **{"manifest.merge-min-count": "5"})
    for number in range(17):
        table.append({"id": [number], "v": ["x"]})
    assert len(rows(table)) == 17
    assert len(table.inspect.manifests()) < 8


# ---------------------------------------------------------------- Refusals


def _float_partition(lake: Lake) -> None:
    lake.create_table("db.x", "a bigint, p double", partition_by=["p"])


def _option(name: str, value: str) -> Callable[[Lake], None]:
    def create(lake: Lake) -> None:
        keyed(lake, "db.x", **{name: value})

    return create


@pytest.mark.parametrize(
    ("attempt", "named"),
    [
        (_float_partition, "DOUBLE"),
        (_option("merge-engine", "aggregation"), "merge-engine"),
        (_option("changelog-producer", "lookup"), "changelog-producer"),
        (_option("deletion-vectors.enabled", "true"), "deletion-vectors.enabled"),
        (_option("bucket", "-1"), "bucket"),
        (_option("file.format", "orc"), "file.format"),
        (_option("data-evolution.enabled", "true"), "data-evolution.enabled"),
        (_option("row-tracking.enabled", "true"), "row-tracking.enabled"),
        (_option("sequence.field", "v"), "sequence.field"),
    ],
)
def test_what_esker_cannot_write_right_is_refused_by_name(
    lake: Lake, attempt: Callable[[Lake], None], named: str
) -> None:
    with pytest.raises(Unsupported, match=named):
        attempt(lake)
    assert "db" not in lake.namespaces() or lake.tables("db") == []


def test_rows_that_do_not_fit_are_refused_and_leave_no_file(lake: Lake) -> None:
    table = keyed(lake)
    for data in ({"id": [None], "v": ["a"]}, {"id": [1], "w": ["a"]}, {"id": ["text"], "v": ["a"]}):
        with pytest.raises(InvalidInput):
            table.append(data)
    with pytest.raises(InvalidInput, match="twice"):
        table.upsert({"id": [1, 1], "v": ["a", "b"]}, on=["id"])
    with pytest.raises(InvalidInput, match="primary key is id"):
        table.upsert({"id": [1], "v": ["a"]}, on=["v"])
    with pytest.raises(InvalidInput, match="no such branch"):
        table.append({"id": [1], "v": ["a"]}, ref="other")
    for verb in ("verify", "scan_changes", "alter", "update", "tag"):
        with pytest.raises(Unsupported, match="another format"):
            getattr(table, verb)("x")
    assert (files_of(table), table.current_snapshot) == ([], None)
    with pytest.raises(AlreadyExists):
        keyed(lake)
    with pytest.raises(Unsupported, match="as they are"):
        lake.create_table("db.y", "ts timestamp", partition_by=["day(ts)"])


# ---------------------------------------------------------------- Several writers


def _append_often(uri: str, number: int, times: int) -> None:
    table = esker.connect(uri).table("db.t")
    for at in range(times):
        table.append({"id": [number * 1000 + at]})


@pytest.mark.slow
def test_four_processes_lose_no_append(tmp_path: Path) -> None:
    uri = f"paimon://{tmp_path}/warehouse"
    table = esker.connect(uri).create_table("db.t", "id bigint")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_often, args=(uri, number, 25)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(300)
        assert writer.exitcode == 0
    table.refresh()
    assert len(table.snapshots) == 100
    assert sorted(row["id"] for row in rows(table)) == sorted(
        number * 1000 + at for number in range(4) for at in range(25)
    )
    lists = list((Path(table.location) / "manifest").glob("manifest-list-*"))
    assert len(lists) == 200  # what lost a race is gone


class Interrupting(LocalStorage):
    """Lets another writer commit before a snapshot is created, as often as asked."""

    others: list[Callable[[], object]]

    def write_new(self, location: str, data: bytes) -> None:
        if "/snapshot/snapshot-" in location and self.others:
            self.others.pop()()
        super().write_new(location, data)


def slow_writer(table: Any, *others: Callable[[], object]) -> Writer:
    storage = Interrupting(roots=(Path(table.location),))
    storage.others = list(others)
    layout = Layout(table.location)
    return Writer(storage, layout, read_schemas(storage, layout)[0])


def test_an_upsert_that_loses_the_race_takes_a_later_number(lake: Lake) -> None:
    table = keyed(lake, buckets=1)
    table.append({"id": [1], "v": ["first"]})
    writer = slow_writer(table, lambda: lake.table("db.keyed").append({"id": [1], "v": ["other"]}))
    writer.append(pa.table({"id": [1], "v": ["last"]}))
    assert rows(table.refresh()) == [{"id": 1, "v": "last"}]
    assert len(files_of(table)) == 3  # the file with the old number is gone


def test_a_delete_that_loses_the_race_looks_again(lake: Lake) -> None:
    table = keyed(lake, buckets=1)
    table.append({"id": [1, 2], "v": ["old", "old"]})
    other = lake.table("db.keyed")
    storage = Interrupting(roots=(Path(table.location),))
    storage.others = [lambda: other.append({"id": [1], "v": ["new"]})]
    layout = Layout(table.location)
    writer = Writer(storage, layout, read_schemas(storage, layout)[0])
    found = table.scan("v = 'old'").to_arrow()
    writer.delete_keys(found, lambda state: other.refresh().scan("v = 'old'", snapshot_id=state.id).to_arrow())
    assert rows(table.refresh()) == [{"id": 1, "v": "new"}]


class Failing(LocalStorage):
    """The answer to the creation of a snapshot is lost, after it was done or before."""

    done = True

    def write_new(self, location: str, data: bytes) -> None:
        if "/snapshot/snapshot-" in location:
            if self.done:
                super().write_new(location, data)
            raise StorageFailed(f"no answer for {location}", retryable=True)
        super().write_new(location, data)


@pytest.mark.parametrize("done", [True, False])
def test_an_unanswered_commit_is_proved_or_unknown_and_keeps_its_files(lake: Lake, done: bool) -> None:
    table = keyed(lake)
    storage = Failing(roots=(Path(table.location),))
    storage.done = done
    layout = Layout(table.location)
    writer = Writer(storage, layout, read_schemas(storage, layout)[0])
    if done:
        assert writer.append(pa.table({"id": [1], "v": ["a"]})) is not None
    else:
        with pytest.raises(OutcomeUnknown, match="may or may not"):
            writer.append(pa.table({"id": [1], "v": ["a"]}))
    assert len(files_of(table)) == 1
    assert len(rows(table.refresh())) == done


def test_a_compaction_whose_input_goes_is_refused_or_done_again(lake: Lake) -> None:
    from esker.paimon.maintain.compact_buckets import Compaction

    table = keyed(lake, buckets=1)
    for value in "ab":
        table.append({"id": [1], "v": [value]})
    storage = Interrupting(roots=(Path(table.location),))
    other = lake.table("db.keyed")
    storage.others = [lambda: other.overwrite({"id": [7], "v": ["new"]})]
    layout = Layout(table.location)
    Compaction(storage, layout, read_schemas(storage, layout)).run()
    assert rows(table.refresh()) == [{"id": 7, "v": "new"}]
    other.append({"id": [8], "v": ["x"]})

    def compact_first(at: int) -> None:
        other.refresh().compact()
        other.append({"id": [at], "v": ["x"]})

    storage.others = [partial(compact_first, at) for at in range(6)]
    with pytest.raises(Conflict):
        Compaction(storage, layout, read_schemas(storage, layout)).run()
    live = {entry.file.name for entry in current_state(storage, layout).files()}
    assert live <= {file.name for file in files_of(table)}
