"""Which manifests are opened, by their partition summaries: each through its own spec, never wrongly left out."""

from __future__ import annotations

from typing import Any

import pytest

from esker.model.parsing.predicate_text import parse
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.predicates.bind import bind
from esker.model.predicates.predicate import TRUE, conjuncts
from esker.model.schema import Schema
from esker.model.transform import DAY, IDENTITY, VOID, BucketTransform, Transform, TruncateTransform, UnknownTransform
from esker.model.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, Field, Type
from esker.model.values import to_bytes
from esker.read.prune_manifest_list import PrunedList, prune_manifest_list
from esker.tree.manifest_list import MOST_FILES, FieldSummary, ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata

SCHEMA = Schema(
    fields=(
        Field(id=1, name="id", type=LONG),
        Field(id=2, name="ts", type=TIMESTAMP),
        Field(id=3, name="region", type=STRING),
        Field(id=4, name="x", type=DOUBLE),
    )
)


def by(source_id: int, transform: Transform, *, spec_id: int = 0, **more: Any) -> PartitionSpec:
    field = PartitionField(
        source_id=source_id, field_id=1000 + spec_id, name=f"p{spec_id}", transform=transform, **more
    )
    return PartitionSpec(spec_id=spec_id, fields=(field,))


def table(*specs: PartitionSpec) -> TableMetadata:
    return TableMetadata(
        format_version=2,
        uuid=None,
        location="mem://t",
        last_updated_ms=0,
        last_column_id=4,
        schemas=(SCHEMA,),
        current_schema_id=0,
        specs=specs,
        default_spec_id=specs[-1].spec_id,
    )


def summary(
    type_: Type, low: Any = None, high: Any = None, *, null: bool = False, nan: bool | None = None
) -> FieldSummary:
    return FieldSummary(
        contains_null=null,
        contains_nan=nan,
        lower_bound=None if low is None else to_bytes(type_, low),
        upper_bound=None if high is None else to_bytes(type_, high),
    )


def manifest(name: str, *partitions: FieldSummary, **facts: Any) -> ManifestFile:
    known: dict[str, Any] = {"spec_id": 0, "added_files": 1, "existing_files": 0, "partitions": partitions}
    return ManifestFile(path=name, length=1, **{**known, **facts})


def prune(metadata: TableMetadata, where: str, *manifests: ManifestFile) -> PrunedList:
    return prune_manifest_list(metadata, SCHEMA, manifests, bind(parse(where), SCHEMA))


def kept(metadata: TableMetadata, where: str, *manifests: ManifestFile) -> str:
    return "".join(m.path for m in prune(metadata, where, *manifests).data)


# ---------------------------------------------------------------- what is known


def test_a_manifest_is_opened_when_its_range_meets_the_filter() -> None:
    days = [manifest(name, summary(DATE, day, day)) for name, day in (("a", 0), ("b", 1), ("c", 2))]
    assert kept(table(by(2, DAY)), "ts >= '1970-01-02' AND ts < '1970-01-03'", *days) == "b"
    assert kept(table(by(2, DAY)), "ts >= '1970-01-02'", *days) == "bc"
    assert kept(table(by(2, DAY)), "true", *days) == "abc"


def test_f3_day_zero_may_hold_the_day_before_as_old_writers_cut_towards_1970() -> None:
    days = [
        manifest("a", summary(DATE, -1, -1)),
        manifest("b", summary(DATE, 0, 0)),
        manifest("c", summary(DATE, 1, 1)),
    ]
    assert kept(table(by(2, DAY)), "ts = '1969-12-31 12:00:00'", *days) == "ab"


def test_a_bucket_prunes_equality_and_no_range() -> None:
    spec = table(by(1, BucketTransform(16)))
    buckets = [manifest("abc"[at], summary(INT, bucket, bucket)) for at, bucket in enumerate((2, 3, 4))]
    assert kept(spec, "id = 34", *buckets) == "b"  # the spec's own vector: bucket[16] of 34 is 3
    assert kept(spec, "id > 34", *buckets) == "abc"


def test_a_truncated_prefix_prunes_text() -> None:
    spec = table(by(3, TruncateTransform(2)))
    two = [manifest("a", summary(STRING, "de", "fr")), manifest("b", summary(STRING, "us", "us"))]
    assert kept(spec, "region = 'usa'", *two) == "b"
    assert kept(spec, "region LIKE 'fra%'", *two) == "a"
    assert kept(spec, "region NOT LIKE 'us%'", *two) == "a"
    assert kept(spec, "region NOT LIKE 'usa%'", *two) == "ab"


def test_c3_nulls_and_nans_are_outside_the_bounds() -> None:
    spec = table(by(4, IDENTITY))
    all_ = [
        manifest("a", summary(DOUBLE, 1.0, 2.0, nan=False)),
        manifest("b", summary(DOUBLE, 1.0, 2.0, nan=True)),
        manifest("c", summary(DOUBLE, 1.0, 2.0)),
        manifest("d", summary(DOUBLE, null=True, nan=False)),
        manifest("e", summary(DOUBLE, 1.0, 2.0, null=True, nan=False)),
    ]
    assert kept(spec, "x > 5", *all_) == "bc"  # NaN is above every number, and c does not say
    assert kept(spec, "isnan(x)", *all_) == "bc"
    assert kept(spec, "x IS NULL", *all_) == "de"
    assert kept(spec, "x = 1", *all_) == "abce"  # nulls alone answer no comparison


def test_n4_the_zeros_are_equal_to_each_other() -> None:
    spec = table(by(4, IDENTITY))
    zeros = [manifest("a", summary(DOUBLE, -0.0, -0.0, nan=False)), manifest("b", summary(DOUBLE, 0.0, 0.0, nan=False))]
    assert kept(spec, "x = 0.0", *zeros) == kept(spec, "x = -0.0D", *zeros) == "ab"
    assert kept(spec, "x < 0", *zeros) == ""


# ---------------------------------------------------------------- what is not


@pytest.mark.parametrize(
    "facts",
    [
        {"partitions": None},
        {"partitions": ()},
        {"partitions": (summary(DATE, 9, 9), summary(DATE, 9, 9))},
        {"spec_id": 77},
    ],
    ids=["no summaries", "too few", "too many", "a spec nobody knows"],
)
def test_a_manifest_that_says_too_little_is_opened(facts: dict[str, Any]) -> None:
    assert kept(table(by(2, DAY)), "ts = '1970-01-01'", manifest("a", summary(DATE, 9, 9), **facts)) == "a"


@pytest.mark.parametrize("transform", [VOID, UnknownTransform("zorder")], ids=str)
def test_f9_a_transform_that_says_nothing_prunes_nothing(transform: Transform) -> None:
    assert kept(table(by(1, transform)), "id = 5", manifest("a", summary(LONG, 9, 9), spec_id=0)) == "a"


def test_a_transform_of_several_columns_prunes_nothing() -> None:
    spec = table(by(1, BucketTransform(4), other_sources=(3,)))
    assert kept(spec, "id = 34", manifest("a", summary(INT, 0, 0)), manifest("b", summary(INT, 3, 3))) == "ab"


@pytest.mark.parametrize("bounds", [(b"\x01", b"\x02"), (b"", b""), (b"\xff" * 9, b"\xff" * 9)])
def test_bounds_that_are_no_values_prune_nothing(bounds: tuple[bytes, bytes]) -> None:
    bent = FieldSummary(contains_null=False, lower_bound=bounds[0], upper_bound=bounds[1])
    assert kept(table(by(2, DAY)), "ts = '1970-01-01'", manifest("a", bent)) == "a"


def test_g7_bounds_the_wrong_way_round_prune_nothing() -> None:
    assert kept(table(by(2, DAY)), "ts = '1970-01-01'", manifest("a", summary(DATE, 9, 5))) == "a"


@pytest.mark.parametrize(
    ("added", "existing", "opened"), [(0, 0, ""), (None, 0, "a"), (0, None, "a"), (None, None, "a"), (0, 1, "a")]
)
def test_c1_a_count_that_is_null_means_perhaps_some(added: int | None, existing: int | None, opened: str) -> None:
    one = manifest("a", partitions=None, added_files=added, existing_files=existing)
    assert kept(table(PartitionSpec()), "true", one) == opened


# ---------------------------------------------------------------- evolution


def test_f8_every_manifest_is_judged_through_its_own_spec() -> None:
    metadata = table(by(2, DAY), by(3, IDENTITY, spec_id=1), PartitionSpec(spec_id=2))
    all_ = [
        manifest("a", summary(DATE, 0, 0)),
        manifest("b", summary(DATE, 9, 9)),
        manifest("c", summary(STRING, "eu", "eu"), spec_id=1),
        manifest("d", summary(STRING, "us", "us"), spec_id=1),
        manifest("e", spec_id=2),
    ]
    assert kept(metadata, "ts < '1970-01-02' AND region = 'eu'", *all_) == "ace"
    assert kept(metadata, "ts < '1970-01-02' OR region = 'eu'", *all_) == "abcde"


def test_several_fields_of_one_column_all_count() -> None:
    spec = PartitionSpec(fields=(*by(1, BucketTransform(16)).fields, *by(1, TruncateTransform(10), spec_id=1).fields))
    both = [summary(INT, 3, 3), summary(LONG, 30, 30)]
    all_ = [
        manifest("a", *both),
        manifest("b", summary(INT, 4, 4), summary(LONG, 30, 30)),
        manifest("c", summary(INT, 3, 3), summary(LONG, 40, 40)),
    ]
    assert kept(table(spec), "id = 34", *all_) == "a"


def test_a_delete_manifest_is_pruned_while_the_table_has_one_spec() -> None:
    two = [
        manifest("a", summary(STRING, "eu", "eu"), content=ManifestContent.DELETES),
        manifest("b", summary(STRING, "us", "us"), content=ManifestContent.DELETES),
    ]
    assert [m.path for m in prune(table(by(3, IDENTITY)), "region = 'eu'", *two).deletes] == ["a"]


def test_b7_a_delete_manifest_is_kept_once_the_spec_has_changed() -> None:
    """Some writers file deletes under the newest spec, whose partition the data does not have."""
    two = [
        manifest("a", summary(STRING, "eu", "eu"), content=ManifestContent.DELETES),
        manifest("b", summary(STRING, "us", "us"), content=ManifestContent.DELETES),
    ]
    metadata = table(by(3, IDENTITY), by(2, DAY, spec_id=1))
    assert [m.path for m in prune(metadata, "region = 'eu'", *two).deletes] == ["a", "b"]


# ---------------------------------------------------------------- what became of the rest


def test_the_list_tells_what_was_dropped_and_by_which_term() -> None:
    metadata = table(by(2, DAY), by(3, IDENTITY, spec_id=1))
    all_ = [
        manifest("a", summary(DATE, 0, 0)),
        manifest("b", summary(DATE, 9, 9)),
        manifest("c", summary(STRING, "us", "us"), spec_id=1),
        manifest("d", summary(STRING, "us", "us"), spec_id=1, content=ManifestContent.DELETES),
        manifest("e", added_files=0, existing_files=0, deleted_files=3),
    ]
    pruned = prune(metadata, "ts < '1970-01-02' AND region = 'eu'", *all_)
    early, eu = conjuncts(bind(parse("ts < '1970-01-02' AND region = 'eu'"), SCHEMA))
    assert [m.path for m in pruned.data] == ["a"]
    assert (pruned.skipped, pruned.skipped_files, pruned.counts_all) == (2, 2, True)
    assert pruned.total == 5
    assert pruned.rejections == {early: 1, eu: 1}


def test_files_of_skipped_manifests_are_counted_as_far_as_the_list_counts_them() -> None:
    far = [manifest("a", summary(DATE, 9, 9), added_files=added) for added in (None, 2**62, 5)]
    pruned = prune(table(by(2, DAY)), "ts < '1970-01-02'", *far)
    assert (pruned.skipped, pruned.skipped_files, pruned.counts_all) == (3, MOST_FILES + 5, False)


def test_without_a_filter_nothing_is_dropped() -> None:
    pruned = prune_manifest_list(table(by(2, DAY)), SCHEMA, [manifest("a", summary(DATE, 0, 0))], TRUE)
    assert [m.path for m in pruned.data] == ["a"]
    assert pruned.rejections == {}
