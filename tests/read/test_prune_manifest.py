"""Which files are read, by their partition values and their statistics, and what of the filter is left to ask."""

from __future__ import annotations

import math
from typing import Any

import pytest
from table_maker import TableMaker, bounded

from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.predicates.bind import to_sql
from esker.model.predicates.predicate import TRUE
from esker.model.schema import Schema
from esker.model.transform import DAY, IDENTITY, Transform
from esker.model.types import DATE, DOUBLE, FLOAT, INT, LONG, STRING, TIMESTAMP, Field, ListType, StructType, Type
from esker.model.values import to_bytes
from esker.read.plan_tasks import Plan
from esker.tree.data_file import DataFile, Metrics
from esker.tree.manifest import EntryStatus, ManifestEntry

ID = Field(id=1, name="id", type=LONG)


def one_column(type_: Type, **facts: Any) -> Schema:
    return Schema(fields=(ID, Field(id=2, name="x", type=type_, **facts)))


def spec_of(transform: Transform, spec_id: int = 0) -> PartitionSpec:
    field = PartitionField(source_id=2, field_id=1000 + spec_id, name=f"p{spec_id}", transform=transform)
    return PartitionSpec(spec_id=spec_id, fields=(field,))


def file(name: str, **facts: Any) -> DataFile:
    return DataFile(path=f"mem:/t/data/{name}", file_format="parquet", **{"record_count": 10, "file_size": 1, **facts})


def metrics(
    low: Any = None,
    high: Any = None,
    *,
    of: Type = LONG,
    nulls: int | None = None,
    nans: int | None = None,
    id_: int = 2,
) -> Metrics:
    def raw(value: Any) -> bytes | None:
        return value if value is None or isinstance(value, bytes) else to_bytes(of, value)

    lower, upper = bounded({id_: (raw(low), raw(high))})
    return Metrics(
        value_counts={id_: 10},
        null_counts={} if nulls is None else {id_: nulls},
        nan_counts={} if nans is None else {id_: nans},
        lower_bounds=lower,
        upper_bounds=upper,
    )


def plan(maker: TableMaker, where: str) -> Plan:
    return maker.table().scan(where).plan()


def kept(schema: Schema, where: str, *files: DataFile, **maker: Any) -> str:
    made = TableMaker(schema, **maker)
    made.manifest(list(files))
    return "".join(task.data_file.path[-1] for task in plan(made, where).tasks)


# ---------------------------------------------------------------- statistics


def test_a_file_is_read_when_its_bounds_meet_the_filter() -> None:
    files = [file("a", metrics=metrics(0, 9)), file("b", metrics=metrics(10, 19)), file("c", metrics=metrics(20, 29))]
    assert kept(one_column(LONG), "x BETWEEN 5 AND 12", *files) == "ab"
    assert kept(one_column(LONG), "x IN (3, 25)", *files) == "ac"
    assert kept(one_column(LONG), "x <> 5", *files) == "abc"


def test_g4_a_missing_statistic_is_unknown_and_not_zero() -> None:
    files = [
        file("a", metrics=metrics(0, 9)),
        file("b", metrics=metrics(0, 9, nulls=0)),
        file("c", metrics=metrics(0, 9, nulls=3)),
        file("d"),
        file("e", metrics=metrics(nulls=10)),
    ]
    assert kept(one_column(LONG), "x IS NULL", *files) == "acde"
    assert kept(one_column(LONG), "x IS NOT NULL", *files) == "abcd"
    assert kept(one_column(LONG), "x > 100", *files) == "d"


def test_g3_a_file_may_hold_nan_unless_it_says_none() -> None:
    files = [
        file("a", metrics=metrics(0.0, 9.0, of=DOUBLE, nans=0)),
        file("b", metrics=metrics(0.0, 9.0, of=DOUBLE)),
        file("c", metrics=metrics(0.0, 9.0, of=DOUBLE, nans=1)),
    ]
    assert kept(one_column(DOUBLE), "x > 100", *files) == "bc"
    assert kept(one_column(DOUBLE), "x < 0", *files) == ""
    assert kept(one_column(DOUBLE), "NOT (x < 100)", *files) == "bc"


def test_g4_one_count_of_all_rows_says_what_the_missing_other_is() -> None:
    nulls = file("a", metrics=metrics(nulls=10, of=DOUBLE))
    nans = file("b", metrics=metrics(nans=10, of=DOUBLE))
    assert kept(one_column(DOUBLE), "x > 5", nulls, nans) == "b"
    assert kept(one_column(DOUBLE), "x < 5", nulls, nans) == ""
    assert kept(one_column(DOUBLE), "x IS NULL", nulls, nans) == "a"
    assert kept(one_column(DOUBLE), "x = double('nan')", nulls, nans) == "b"


def test_g4_counts_that_come_to_more_than_all_rows_say_nothing() -> None:
    absurd = file("a", metrics=metrics(nulls=4, nans=10, of=DOUBLE))
    assert kept(one_column(DOUBLE), "x < 5", absurd) == "a"
    assert kept(one_column(DOUBLE), "x IS NULL", absurd) == "a"


def test_a_required_column_has_no_nulls_to_find_whatever_was_not_counted() -> None:
    files = [file("a", metrics=metrics(0, 9)), file("b")]
    assert kept(one_column(LONG, required=True), "x IS NULL", *files) == ""
    assert kept(one_column(LONG), "x IS NULL", *files) == "ab"
    whole = TableMaker(one_column(LONG, required=True))
    whole.manifest(files[:1])
    [task] = plan(whole, "x >= 0").tasks
    assert task.residual != TRUE  # no rows are deleted by a count that is missing (N1)


def test_a_file_of_no_records_is_read_for_no_filter() -> None:
    empty = {"record_count": 0, "metrics": Metrics()}
    lying = {"record_count": 0, "metrics": metrics(0, 9, nulls=0)}
    files = [file("a", **empty), file("b", **lying), file("c", metrics=metrics(0, 9))]
    assert kept(one_column(LONG), "x = 5", *files) == "bc"
    assert kept(one_column(LONG), "x IS NULL OR x = 5", *files) == "bc"
    assert kept(one_column(LONG), "x IS NULL", *files) == "c"


def test_g3_a_nan_bound_is_no_bound() -> None:
    bad = metrics(math.nan, math.nan, of=DOUBLE, nans=0)
    assert kept(one_column(DOUBLE), "x = 5", file("a", metrics=bad)) == "a"


def test_e6_a_bound_of_the_older_type_is_read_by_its_length() -> None:
    short = metrics(to_bytes(INT, 5), to_bytes(INT, 9))
    assert kept(one_column(LONG), "x = 7", file("a", metrics=short)) == "a"
    assert kept(one_column(LONG), "x = 77", file("a", metrics=short)) == ""
    half = metrics(to_bytes(FLOAT, 1.5), to_bytes(FLOAT, 2.5), nans=0)
    assert kept(one_column(DOUBLE), "x = 2", file("a", metrics=half)) == "a"
    assert kept(one_column(DOUBLE), "x = 3", file("a", metrics=half)) == ""


def test_e6_a_date_bound_under_a_timestamp_counts_days() -> None:
    days = metrics(to_bytes(DATE, 1), to_bytes(DATE, 2))
    assert kept(one_column(TIMESTAMP), "x = TIMESTAMP_NTZ '1970-01-02 00:00:00'", file("a", metrics=days)) == "a"
    assert kept(one_column(TIMESTAMP), "x = TIMESTAMP_NTZ '1970-01-05 00:00:00'", file("a", metrics=days)) == ""


def test_n5_a_column_the_file_lacks_is_kept_for_its_default() -> None:
    with_default = one_column(LONG, initial_default=7, write_default=7)
    assert kept(with_default, "x = 7", file("a", metrics=metrics(0, 9, id_=1)), format_version=3) == "a"


def test_g10_nothing_below_a_list_prunes() -> None:
    schema = Schema(fields=(ID, Field(id=2, name="tags", type=ListType(element_id=3, element=STRING))))
    assert kept(schema, "tags IS NOT NULL", file("a", metrics=metrics(of=STRING, nulls=10))) == "a"


def test_a_struct_member_prunes_by_its_own_statistics() -> None:
    schema = Schema(fields=(ID, Field(id=3, name="s", type=StructType((Field(id=2, name="x", type=LONG),)))))
    files = [file("a", metrics=metrics(0, 9)), file("b", metrics=metrics(10, 19))]
    assert kept(schema, "s.x = 15", *files) == "b"
    assert kept(schema, "s IS NULL", *files) == "ab"  # nobody counts the structs themselves


# ---------------------------------------------------------------- partitions


def test_a_partition_value_prunes_without_any_statistics() -> None:
    files = [file("a", partition=(0,)), file("b", partition=(1,)), file("c", partition=(None,))]
    by_day = {"specs": [spec_of(DAY)]}
    assert kept(one_column(TIMESTAMP), "x >= '1970-01-02'", *files, **by_day) == "b"
    assert kept(one_column(TIMESTAMP), "x IS NULL", *files, **by_day) == "c"


def test_partition_and_statistics_prune_together() -> None:
    files = [
        file("a", partition=("eu",), metrics=metrics(0, 9, id_=1)),
        file("b", partition=("eu",), metrics=metrics(10, 19, id_=1)),
        file("c", partition=("us",), metrics=metrics(0, 9, id_=1)),
    ]
    assert kept(one_column(STRING), "x = 'eu' AND id < 5", *files, specs=[spec_of(IDENTITY)]) == "a"


def test_f8_files_of_several_specs_are_judged_each_by_its_own() -> None:
    maker = TableMaker(one_column(TIMESTAMP), specs=[PartitionSpec(), spec_of(DAY, spec_id=1)])
    maker.manifest([file("a"), file("b", metrics=metrics(0, 9, of=TIMESTAMP))])
    maker.manifest([file("c", spec_id=1, partition=(1,)), file("d", spec_id=1, partition=(9,))])
    found = plan(maker, "x >= '1970-01-02' AND x < '1970-01-03'")
    assert "".join(task.data_file.path[-1] for task in found.tasks) == "ac"


# ---------------------------------------------------------------- what is left


def test_a_file_that_matches_whole_leaves_nothing_to_ask() -> None:
    maker = TableMaker(one_column(LONG))
    maker.manifest(
        [
            file("a", metrics=metrics(0, 9, nulls=0)),
            file("b", metrics=metrics(0, 99, nulls=0)),
            file("c", metrics=metrics(0, 9)),
        ]
    )
    found = [to_sql(task.residual) for task in plan(maker, "x < 50 AND x > 3").tasks]
    assert found == ["x > 3", "x < 50 AND x > 3", "x < 50 AND x > 3"]  # c may hold nulls (N1)


def test_a_partition_settles_its_term() -> None:
    maker = TableMaker(one_column(STRING), specs=[spec_of(IDENTITY)])
    maker.manifest([file("a", partition=("eu",))])
    [task] = plan(maker, "x = 'eu' AND id = 1").tasks
    assert to_sql(task.residual) == "id = 1"


def test_a_removed_file_is_not_there() -> None:
    maker = TableMaker(one_column(LONG))
    gone = ManifestEntry(data_file=file("b"), status=EntryStatus.DELETED, snapshot_id=1)
    maker.manifest([file("a"), gone])
    found = plan(maker, "true")
    assert [task.data_file.path[-1] for task in found.tasks] == ["a"]
    assert found.funnel.files_total == 1


@pytest.mark.parametrize("where", ["x = 5", "x IS NULL", "NOT (x > 3 OR x IS NULL)", "x IN (1, 2)"])
def test_a_file_without_statistics_is_always_read(where: str) -> None:
    assert kept(one_column(LONG), where, file("a"), file("b", metrics=Metrics())) == "ab"
