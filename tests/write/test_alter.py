"""``alter()``: every verb, one commit for the block, and the rules that keep old data what it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from commits import CommittedTable
from doors import MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound

from esker.errors import Conflict, EskerError, InvalidInput, Unsupported
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.iceberg.metadata.write_table_metadata import encode_table_metadata
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.transform import UnknownTransform
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.definition.alter import Alteration

SCHEMA = "id bigint not null, region string, ts timestamp, d date, n int, point struct<x: float, y: float>"


@pytest.fixture
def table() -> CommittedTable:
    return CommittedTable(SCHEMA)


def altered(table: CommittedTable, *verbs: Callable[[Alteration], object]) -> TableMetadata:
    """The table's metadata after one block of these."""
    with table.alter() as change:
        for verb in verbs:
            verb(change)
    return table.metadata


# ---------------------------------------------------------------- the block


def test_a_block_is_one_commit(table: CommittedTable) -> None:
    before = table.metadata
    with table.alter() as change:
        change.add_column("a", "int", doc="new", after="id")
        change.rename_column("region", "place")
        change.widen_column("n", "bigint")
        change.move_column("ts", first=True)
        change.make_optional("id")
        change.set_doc("d", "day")
        change.add_partition("day(ts)")
        change.set_sort_order("ts desc", "bucket(4, id)")
        change.set_properties({"write.target-file-size-bytes": "5"}, owner="me")
    after = table.metadata
    assert [f.name for f in after.schema] == ["ts", "id", "a", "place", "d", "n", "point"]
    assert (len(after.schemas), len(after.specs), after.default_spec_id) == (2, 2, 1)
    assert len(after.metadata_log) == len(before.metadata_log) + 1
    assert after.properties == {"write.target-file-size-bytes": "5", "owner": "me"}
    assert after.last_updated_ms > before.last_updated_ms
    assert after.last_column_id == before.last_column_id + 1
    assert not after.schema.find("id").required
    assert str(after.schema.find("n").type) == "long"


def test_an_exception_in_the_block_leaves_the_table_as_it_was(table: CommittedTable) -> None:
    before = table.load()
    with pytest.raises(InvalidInput, match="no column 'nope'"):
        altered(table, lambda c: c.add_column("a", "int"), lambda c: c.drop_column("nope"))
    with pytest.raises(ZeroDivisionError):
        altered(table, lambda c: c.add_column("a", "int"), lambda c: 1 // 0)
    assert table.load().metadata_location == before.metadata_location


def test_a_refused_verb_may_be_caught_and_the_block_go_on(table: CommittedTable) -> None:
    with table.alter() as change:
        with pytest.raises(InvalidInput):
            change.add_column("id", "int")
        change.add_column("fine", "int")
    assert table.metadata.schema.fields[-1].name == "fine"


def test_a_block_that_changes_nothing_commits_nothing(table: CommittedTable) -> None:
    before = table.load()
    altered(table)
    altered(table, lambda c: c.add_column("a", "int"), lambda c: c.drop_column("a"))
    altered(table, lambda c: c.set_properties({}), lambda c: c.remove_properties("nope"))
    altered(table, lambda c: c.upgrade_format(2), lambda c: c.set_sort_order())
    assert table.load().metadata_location == before.metadata_location


def test_an_alteration_that_is_over_is_over(table: CommittedTable) -> None:
    with table.alter() as change:
        change.add_column("a", "int")
    with pytest.raises(InvalidInput, match="cannot use an alteration that has ended: begin another with alter"):
        change.add_column("b", "int")


def test_commit_may_be_called_before_the_block_ends(table: CommittedTable) -> None:
    with table.alter() as change:
        change.add_column("a", "int")
        state = change.commit()
    assert state.metadata.schema.fields[-1].name == "a"


def test_verbs_build_on_one_another(table: CommittedTable) -> None:
    altered(table, lambda c: c.add_partition("region"), lambda c: c.set_sort_order("n"))
    with pytest.raises(InvalidInput, match="cannot drop column 'region': the partition field 'region' is made of"):
        altered(table, lambda c: c.drop_column("region"))
    with pytest.raises(InvalidInput, match="cannot drop column 'n': the sort order is made of 'n'"):
        altered(table, lambda c: c.drop_column("n"))
    after = altered(
        table,
        lambda c: c.drop_partition("region"),
        lambda c: c.drop_column("region"),
        lambda c: c.set_sort_order(),
        lambda c: c.drop_column("n"),
        lambda c: c.add_column("region", "int"),
        lambda c: c.add_partition("region"),
    )
    assert after.schema.find("region").id == after.last_column_id
    assert after.spec.fields[0].source_id == after.last_column_id
    assert after.sort_order.order_id == 0


def test_the_last_column_stays() -> None:
    with pytest.raises(InvalidInput, match="cannot drop the last column: a table has at least one"):
        altered(CommittedTable("a int"), lambda c: c.drop_column("a"))


# ---------------------------------------------------------------- concurrency


@pytest.mark.parametrize(
    ("theirs", "ours", "moved"),
    [
        (lambda c: c.add_column("t", "int"), lambda c: c.add_column("o", "int"), "columns"),
        (lambda c: c.add_column("t", "int"), lambda c: c.add_partition("region"), "columns"),
        (lambda c: c.add_partition("region"), lambda c: c.add_partition("day(ts)"), "partitioning"),
        (lambda c: c.set_sort_order("id"), lambda c: c.set_sort_order("n"), "sort order"),
    ],
)
def test_l1_a_change_of_what_another_writer_changed_is_a_conflict(
    table: CommittedTable, theirs: Callable[[Alteration], None], ours: Callable[[Alteration], None], moved: str
) -> None:
    base = table.load()
    altered(table, theirs)
    with (
        pytest.raises(
            Conflict, match=f"cannot alter db.t: another writer has changed its {moved}; refresh and try again"
        ),
        table.alter(base) as change,
    ):
        ours(change)


def test_l1_what_does_not_touch_is_applied_to_the_newest_version(table: CommittedTable) -> None:
    base = table.load()
    altered(table, lambda c: c.add_column("theirs", "int"), lambda c: c.set_properties(a="1"))
    table.append("f")
    with table.alter(base) as change:
        change.set_properties(b="2")
        change.upgrade_format(3)
    after = table.metadata
    assert after.properties == {"a": "1", "b": "2"}
    assert after.schema.fields[-1].name == "theirs"
    assert (after.format_version, len(after.snapshots)) == (3, 1)


def test_l1_an_append_between_does_not_disturb_a_change_of_columns(table: CommittedTable) -> None:
    table.catalog.rivals.append(lambda: table.append("f"))
    after = altered(table, lambda c: c.add_column("a", "int"))
    assert (len(after.snapshots), after.schema.fields[-1].name) == (1, "a")


def test_l1_the_rules_are_asked_again_of_the_newest_version(table: CommittedTable) -> None:
    base = table.load()
    altered(table, lambda c: c.add_partition("region"))
    with pytest.raises(InvalidInput, match="cannot drop column 'region'"), table.alter(base) as change:
        change.drop_column("region")


def test_another_writers_upgrade_is_no_reason_to_fail(table: CommittedTable) -> None:
    table.catalog.rivals.append(lambda: altered(table, lambda c: c.upgrade_format(3)))
    v1 = CommittedTable(SCHEMA, format_version=1)
    v1.catalog.rivals.append(lambda: altered(v1, lambda c: c.upgrade_format(3)))
    assert altered(v1, lambda c: c.upgrade_format(2)).format_version == 3


# ---------------------------------------------------------------- ids


def test_d5_a_dropped_columns_id_is_never_used_again(table: CommittedTable) -> None:
    first = altered(table, lambda c: c.add_column("a", "int")).last_column_id
    altered(table, lambda c: c.drop_column("a"))
    after = altered(table, lambda c: c.add_column("a", "int"))
    assert after.schema.find("a").id == first + 1 == after.last_column_id


def test_d5_an_equal_schema_spec_or_order_is_used_again(table: CommittedTable) -> None:
    first = table.metadata
    altered(
        table, lambda c: c.add_column("a", "int"), lambda c: c.add_partition("region"), lambda c: c.set_sort_order("n")
    )
    back = altered(
        table, lambda c: c.drop_column("a"), lambda c: c.drop_partition("region"), lambda c: c.set_sort_order()
    )
    assert (back.current_schema_id, back.default_spec_id, back.default_sort_order_id) == (0, 0, 0)
    assert (len(back.schemas), len(back.specs), len(back.sort_orders)) == (2, 2, 2)
    assert back.schema == first.schema
    again = altered(table, lambda c: c.add_partition("region"), lambda c: c.set_sort_order("n"))
    assert (again.default_spec_id, again.default_sort_order_id, len(again.specs)) == (1, 1, 2)


def test_d5_a_spec_of_another_name_is_another_spec(table: CommittedTable) -> None:
    altered(table, lambda c: c.add_partition("region"))
    altered(table, lambda c: c.drop_partition("region"))
    after = altered(table, lambda c: c.add_partition("region", "area"))
    assert (len(after.specs), after.spec.fields[0].field_id) == (3, 1001)


def test_f1_an_equivalent_partition_field_gets_its_old_id_back(table: CommittedTable) -> None:
    altered(table, lambda c: c.add_partition("day(ts)"), lambda c: c.add_partition("bucket(8, id)"))
    assert [str(f) for f in table.metadata.spec.fields] == ["1000: ts_day: day(3)", "1001: id_bucket_8: bucket[8](1)"]
    altered(table, lambda c: c.drop_partition("day(ts)"), lambda c: c.add_partition("region"))
    after = altered(table, lambda c: c.add_partition("days(ts)"))
    assert [f.field_id for f in after.spec.fields] == [1001, 1002, 1000]
    assert after.last_partition_id == 1002


def test_f1_partition_ids_grow_from_the_last_one_ever_used(table: CommittedTable) -> None:
    altered(table, lambda c: c.add_partition("region"))
    altered(table, lambda c: c.drop_partition("region"))
    after = altered(table, lambda c: c.add_partition("bucket(4, id)"))
    assert (after.spec.fields[0].field_id, after.last_partition_id) == (1001, 1001)


# ---------------------------------------------------------------- partitioning


def test_f2_in_version_1_a_dropped_partition_field_becomes_void_in_its_place() -> None:
    table = CommittedTable(SCHEMA, format_version=1, partition_by=["day(ts)", "region"])
    after = altered(table, lambda c: c.drop_partition("day(ts)"), lambda c: c.add_partition("bucket(4, id)"))
    assert [str(f) for f in after.spec.fields] == [
        "1000: ts_day: void(3)",
        "1001: region: identity(2)",
        "1002: id_bucket_4: bucket[4](1)",
    ]
    with pytest.raises(InvalidInput, match="cannot drop partition field 'ts_day': it is dropped already"):
        altered(table, lambda c: c.drop_partition("ts_day"))


def test_f2_in_version_1_what_comes_back_is_a_new_field_and_the_void_one_steps_aside() -> None:
    table = CommittedTable(SCHEMA, format_version=1, partition_by=["day(ts)"])
    altered(table, lambda c: c.drop_partition("ts_day"))
    after = altered(table, lambda c: c.add_partition("day(ts)"))
    assert [str(f) for f in after.spec.fields] == ["1000: ts_day_1000: void(3)", "1001: ts_day: day(3)"]


def test_f2_in_version_1_dropped_and_added_in_one_block_is_as_it_was() -> None:
    table = CommittedTable(SCHEMA, format_version=1, partition_by=["day(ts)", "region"])
    after = altered(table, lambda c: c.drop_partition("ts_day"), lambda c: c.add_partition("day(ts)"))
    assert after.default_spec_id == 0


def test_f2_from_version_2_on_a_dropped_field_is_gone() -> None:
    table = CommittedTable(SCHEMA, partition_by=["day(ts)", "region"])
    assert [f.name for f in altered(table, lambda c: c.drop_partition("ts_day")).spec.fields] == ["region"]


def test_f2_a_void_field_of_version_1_is_taken_up_again_after_the_upgrade() -> None:
    table = CommittedTable(SCHEMA, format_version=1, partition_by=["day(ts)", "region"])
    altered(table, lambda c: c.drop_partition("day(ts)"))
    after = altered(table, lambda c: c.upgrade_format(2), lambda c: c.add_partition("day(ts)"))
    assert [str(f) for f in after.spec.fields] == ["1000: ts_day: day(3)", "1001: region: identity(2)"]
    assert after.default_spec_id == 0


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (lambda c: c.add_partition("region"), "the table is partitioned by identity of that column already"),
        (lambda c: c.add_partition("year(ts)"), "the table is partitioned by day of that column already"),
        (lambda c: c.add_partition("bucket(4, id)", "region"), "as 'region': a column has that name; give another"),
        (lambda c: c.add_partition("bucket(4, id)", "TS_day"), "another partition field has that name; give another"),
        (lambda c: c.drop_partition("id"), "no partition field 'id': the table has ts_day, region"),
        (lambda c: c.drop_partition("hour(ts)"), "no partition field 'hour(ts)': the table has ts_day, region"),
        (lambda c: c.drop_partition("((("), "no partition field '(((': the table has ts_day, region"),
        (lambda c: c.add_column("ts_day", "int"), "cannot name a column 'ts_day': a partition field made of 'ts'"),
        (lambda c: c.rename_column("n", "ts_day"), "cannot name a column 'ts_day': a partition field made of 'ts'"),
        (lambda c: c.set_sort_order("nope"), "cannot use 'nope': no column 'nope'"),
    ],
)
def test_a_change_of_layout_that_clashes_is_refused(verb: Callable[[Alteration], None], said: str) -> None:
    table = CommittedTable(SCHEMA, partition_by=["day(ts)", "region"])
    with pytest.raises(InvalidInput) as refusal:
        altered(table, verb)
    assert said in refusal.value.message


def test_a_renamed_partition_column_leaves_the_partition_its_name() -> None:
    table = CommittedTable(SCHEMA, partition_by=["region"])
    after = altered(table, lambda c: c.rename_column("region", "place"))
    assert after.spec.fields[0].name == "region"
    with pytest.raises(InvalidInput, match="a partition field made of 'place' has that name"):
        altered(table, lambda c: c.add_column("region", "string"))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_dropped_partition_column_can_be_added_again(version: int) -> None:
    lake = MemoryLake().lake()
    table = orders(lake, partition_by=["region"], format_version=version)
    table.append(rows([1], "eu"))
    with table.alter() as change:
        change.drop_partition("region")
        change.drop_column("region")
    with table.alter() as change:
        change.add_column("region", "string")
    table.append(rows([2], "us"))
    found = table.scan().to_arrow().sort_by("id")
    assert found.select(["id", "region"]).to_pylist() == [{"id": 1, "region": None}, {"id": 2, "region": "us"}]
    assert table.scan("region = 'us'").count() == 1
    assert table.scan("region = 'eu'").count() == 0
    check_sound(lake, NAME)


def test_f9_a_spec_with_an_unknown_transform_survives_and_is_not_written_with(table: CommittedTable) -> None:
    odd = PartitionField(source_id=1, field_id=1000, name="z", transform=UnknownTransform("zorder[3]"))
    metadata = replace(table.metadata, specs=(PartitionSpec(fields=(odd,)),), default_spec_id=0, last_partition_id=1000)
    change = table.alter(replace(table.load(), metadata=metadata))
    change.add_column("a", "int")
    after = change.apply(metadata)
    assert after.spec.fields == (odd,)
    assert not after.spec.is_writable
    change.drop_partition("z")
    assert change.apply(metadata).spec.is_writable
    with pytest.raises(InvalidInput, match="there is no transform 'zorder'"):
        change.add_partition("zorder(id)")


# ---------------------------------------------------------------- promotion


def test_e7_a_promotion_that_would_change_partition_values_is_refused() -> None:
    table = CommittedTable(SCHEMA, format_version=3, partition_by=["day(d)", "bucket(4, n)"])
    assert str(altered(table, lambda c: c.widen_column("n", "bigint")).schema.find("n").type) == "long"
    with pytest.raises(
        InvalidInput, match=r"cannot widen column 'd' from date to timestamp: data is partitioned by it"
    ):
        altered(table, lambda c: c.widen_column("d", "timestamp_ntz"))
    altered(table, lambda c: c.drop_partition("day(d)"))
    with pytest.raises(
        InvalidInput, match="its partition values would change"
    ):  # files of the old spec are still there
        altered(table, lambda c: c.widen_column("d", "timestamp_ns"))
    free = CommittedTable(SCHEMA, format_version=3)
    assert str(altered(free, lambda c: c.widen_column("d", "timestamp_ns")).schema.find("d").type) == "timestamp_ns"


def test_e7_what_is_partitioned_by_in_the_same_block_counts_too() -> None:
    table = CommittedTable(SCHEMA, format_version=3)
    with pytest.raises(InvalidInput, match="data is partitioned by it"):
        altered(table, lambda c: c.add_partition("month(d)"), lambda c: c.widen_column("d", "timestamp_ntz"))


# ---------------------------------------------------------------- format versions


def test_versions_only_go_forward() -> None:
    table = CommittedTable(SCHEMA, format_version=1)
    for version in (2, 3):
        assert altered(table, lambda c, v=version: c.upgrade_format(v)).format_version == version  # type: ignore[misc]
    for version, error, said in (
        (2, InvalidInput, "cannot go from format version 3 to 2: versions only go forward"),
        (4, Unsupported, "cannot use format version 4: the newest known is 3"),
        ("3", InvalidInput, "cannot use format version '3': it is 1, 2 or 3"),
    ):
        with pytest.raises(error) as refusal:
            altered(table, lambda c, v=version: c.upgrade_format(v))  # type: ignore[misc]
        assert said in refusal.value.message


def test_i6_the_upgrade_to_version_3_starts_row_ids_at_0_and_leaves_old_snapshots_alone(table: CommittedTable) -> None:
    old = table.append("a")
    after = altered(table, lambda c: c.upgrade_format(3))
    assert (after.format_version, after.next_row_id) == (3, 0)
    assert after.snapshots[0] == old
    assert after.snapshots[0].first_row_id is None
    new = table.append("b")
    assert (new.first_row_id, new.added_rows, table.metadata.next_row_id) == (0, 20, 20)


def test_a_table_without_uuid_gets_one_when_the_format_asks_for_it() -> None:
    table = CommittedTable(SCHEMA, format_version=1)
    nameless = replace(table.metadata, uuid=None)
    change = table.alter(replace(table.load(), metadata=nameless))
    change.upgrade_format(2)
    assert change.apply(nameless).uuid


def test_a_snapshot_without_a_manifest_list_stays_in_version_1() -> None:
    table = CommittedTable(SCHEMA, format_version=1)
    inline = Snapshot(snapshot_id=5, timestamp_ms=1, manifests=("a.avro",))
    metadata = replace(table.metadata, snapshots=(inline,), current_snapshot_id=5)
    with pytest.raises(Unsupported, match="cannot upgrade the table: snapshot 5 has no manifest list; expire it first"):
        table.alter(replace(table.load(), metadata=metadata)).upgrade_format(2)


def test_what_version_3_brings_can_be_used_in_the_block_that_upgrades(table: CommittedTable) -> None:
    after = altered(
        table,
        lambda c: c.upgrade_format(3),
        lambda c: c.add_column("v", "variant"),
        lambda c: c.add_column("r", "int", required=True, default=7),
        lambda c: c.set_default("r", 8),
    )
    assert (after.schema.find("r").initial_default, after.schema.find("r").write_default) == (7, 8)
    read = decode_table_metadata("t", encode_table_metadata(after))
    assert read.schema == after.schema


# ---------------------------------------------------------------- properties


def test_properties_are_set_removed_and_refused(table: CommittedTable) -> None:
    altered(table, lambda c: c.set_properties({"a": "1", "b": "2"}))
    assert altered(table, lambda c: c.remove_properties("a", "x"), lambda c: c.set_properties(c="3")).properties == {
        "b": "2",
        "c": "3",
    }
    bad: list[tuple[dict[str, Any], type[EskerError], str]] = [
        ({"commit.retry.num-retries": "many"}, InvalidInput, "cannot use commit.retry.num-retries = 'many'"),
        ({"write.format.default": "orc"}, Unsupported, "cannot honour write.format.default = 'orc'"),
        ({"format-version": "3"}, InvalidInput, "change it with upgrade_format()"),
        ({"a": 1}, InvalidInput, "keys and values must be text"),
    ]
    for given, error, said in bad:
        with pytest.raises(error) as refusal:
            altered(table, lambda c, g=given: c.set_properties(g))  # type: ignore[misc]
        assert said in refusal.value.message
    with pytest.raises(InvalidInput, match="give their names, as text"):
        altered(table, lambda c: c.remove_properties(5))  # type: ignore[arg-type]


def test_a_columns_settings_follow_it(table: CommittedTable) -> None:
    key = "write.metadata.metrics.column."
    altered(table, lambda c: c.set_properties({f"{key}point.x": "full", f"{key}n": "none"}))
    after = altered(table, lambda c: c.rename_column("point", "place"), lambda c: c.drop_column("n"))
    assert after.properties == {f"{key}place.x": "full"}


def test_the_name_mapping_keeps_up_with_the_columns(table: CommittedTable) -> None:
    mapping = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["region", "area"]}]
    altered(table, lambda c: c.set_properties({"schema.name-mapping.default": json.dumps(mapping)}))
    after = altered(
        table,
        lambda c: c.rename_column("region", "place"),
        lambda c: c.drop_column("point"),
        lambda c: c.add_column("s", "struct<a: int>"),
        lambda c: c.add_column("area", "int"),  # files from before mean the other column by that name
    )
    read = json.loads(after.properties["schema.name-mapping.default"])
    added = after.schema.find("s").id
    assert {"field-id": 2, "names": ["region", "area", "place"]} in read
    assert {"field-id": added, "names": ["s"], "fields": [{"field-id": added + 1, "names": ["a"]}]} in read
    assert after.schema.find("area").id not in [entry["field-id"] for entry in read]
    altered(table, lambda c: c.set_properties({"schema.name-mapping.default": "[5]"}))
    with pytest.raises(InvalidInput, match=r"schema\.name-mapping\.default is not a name mapping"):
        altered(table, lambda c: c.add_column("more", "int"))
