"""Which deletes apply to which data file: sequence numbers, scope, and files that are named (checklist H, B2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from fake_ports import entries_of
from manifest_makers import UNPARTITIONED, a_file, table_of
from table_maker import TableMaker

from esker.errors import Corrupt
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import IDENTITY, VOID
from esker.model.types import DOUBLE, LONG, STRING, Field
from esker.read.attach_deletes import DELETE_FILE_PATH_ID, DeleteIndex, partition_key
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import ColumnMetrics, EntryStatus
from esker.tree.manifest_list import ManifestContent, ManifestFile

BY_REGION = PartitionSpec(
    spec_id=1, fields=(PartitionField(source_id=2, field_id=1000, name="region", transform=IDENTITY),)
)
ALL_VOID = PartitionSpec(spec_id=2, fields=(PartitionField(source_id=2, field_id=1000, name="region", transform=VOID),))
SPECS = {spec.spec_id: spec for spec in (UNPARTITIONED, BY_REGION, ALL_VOID)}
DATA = "mem://t/data/a.parquet"


def data(path: str = DATA, **facts: Any) -> DataFile:
    return a_file(path, **{"spec_id": 1, "partition": ("eu",), "sequence_number": 5, **facts})


def delete(path: str, content: FileContent, number: int, **facts: Any) -> DataFile:
    return a_file(path, **{"content": content, "spec_id": 1, "partition": ("eu",), "sequence_number": number, **facts})


def equality(number: int, path: str = "mem://t/data/eq.parquet", **facts: Any) -> DataFile:
    return delete(path, FileContent.EQUALITY_DELETES, number, **{"equality_ids": (1,), **facts})


def positions(number: int, path: str = "mem://t/data/pos.parquet", **facts: Any) -> DataFile:
    return delete(path, FileContent.POSITION_DELETES, number, **facts)


def vector(number: int, target: str = DATA, path: str = "mem://t/data/dv.puffin", **facts: Any) -> DataFile:
    facts = {"file_format": "puffin", "content_offset": 4, "content_size": 40, **facts}
    return positions(number, path, referenced_data_file=target, **facts)


def index(
    deletes: Sequence[DataFile],
    *,
    status: EntryStatus = EntryStatus.ADDED,
    bounds: tuple[str | None, str | None] | None = None,
) -> DeleteIndex:
    """An index over deletes, one batch per spec; ``bounds`` are of every file's ``file_path`` column."""
    batches = []
    for spec_id, spec in SPECS.items():
        files = [file for file in deletes if file.spec_id == spec_id]
        manifest = ManifestFile(
            path=f"mem://t/{spec_id}.avro", length=1, spec_id=spec_id, content=ManifestContent.DELETES
        )
        entries = entries_of(manifest, spec, files, status=[status] * len(files))
        if bounds is not None:
            entries = replace(entries, metrics={DELETE_FILE_PATH_ID: path_bounds(len(files), *bounds)})
        batches.append(entries)
    return DeleteIndex(table_of(*SPECS.values()), batches)


def path_bounds(rows: int, lower: str | None, upper: str | None) -> ColumnMetrics:
    def of(text: str | None) -> pa.Array:
        return pa.array([None if text is None else text.encode()] * rows, pa.binary())

    nothing = pa.nulls(rows, pa.int64())
    return ColumnMetrics(lower=of(lower), upper=of(upper), value_count=nothing, null_count=nothing, nan_count=nothing)


def names(found: Sequence[DataFile]) -> list[str]:
    return [file.path.rpartition("/")[2] for file in found]


# ---------------------------------------------------------------- sequence numbers


@pytest.mark.parametrize(("number", "applies"), [(4, False), (5, False), (6, True)])
def test_h1_an_equality_delete_applies_to_data_of_a_strictly_smaller_number(number: int, applies: bool) -> None:
    assert bool(index([equality(number)]).applying_to(data())) == applies


@pytest.mark.parametrize(("number", "applies"), [(4, False), (5, True), (6, True)])
def test_h1_positions_apply_to_data_of_a_smaller_or_equal_number(number: int, applies: bool) -> None:
    for one in (positions(number), positions(number, referenced_data_file=DATA), vector(number)):
        assert bool(index([one]).applying_to(data())) == applies


@pytest.mark.parametrize(("number", "applies"), [(4, False), (5, False), (6, True)])
def test_h1_a_global_equality_delete_obeys_numbers_too(number: int, applies: bool) -> None:
    found = index([equality(number, spec_id=0, partition=())]).applying_to(data())
    assert bool(found) == applies


def test_b2_the_data_sequence_number_decides_and_not_that_of_the_file() -> None:
    """Compaction rewrites a file late and keeps the number its rows had."""
    compacted = data(sequence_number=3, file_sequence_number=9)
    assert names(index([equality(4), positions(3)]).applying_to(compacted)) == ["pos.parquet", "eq.parquet"]


def test_b4_number_zero_is_a_number() -> None:
    old = data(sequence_number=0)
    assert index([positions(0)]).applying_to(old)
    assert not index([equality(0)]).applying_to(old)
    assert index([equality(1)]).applying_to(old)


# ---------------------------------------------------------------- scope


@pytest.mark.parametrize("make", [equality, positions])
def test_h2_a_delete_stays_within_its_partition(make: Any) -> None:
    deletes = index([make(9)])
    assert deletes.applying_to(data())
    assert not deletes.applying_to(data(partition=("us",)))
    assert not deletes.applying_to(data(partition=(None,)))


@pytest.mark.parametrize("make", [equality, positions])
def test_h2_an_equal_tuple_of_another_spec_is_another_partition(make: Any) -> None:
    assert not index([make(9)]).applying_to(data(spec_id=7))


def test_h2_an_equality_delete_under_an_unpartitioned_spec_is_global() -> None:
    deletes = index([equality(9, spec_id=0, partition=())])
    assert deletes.applying_to(data())
    assert deletes.applying_to(data(partition=("us",)))
    assert deletes.applying_to(data(spec_id=0, partition=()))


def test_h2_a_spec_of_dropped_fields_alone_counts_as_unpartitioned() -> None:
    assert index([equality(9, spec_id=2, partition=(None,))]).applying_to(data(partition=("us",)))


def test_h2_positions_under_an_unpartitioned_spec_are_not_global() -> None:
    deletes = index([positions(9, spec_id=0, partition=())])
    assert not deletes.applying_to(data())
    assert deletes.applying_to(data(spec_id=0, partition=()))


def test_h2_a_null_partition_is_a_partition() -> None:
    assert index([equality(9, partition=(None,))]).applying_to(data(partition=(None,)))


def test_f10_nan_is_one_partition_and_the_zeros_are_two() -> None:
    def key(value: float) -> Any:
        return partition_key(a_file(partition=(value,)))

    assert key(math.nan) == key(-math.nan) == key(float("nan"))
    assert key(0.0) != key(-0.0)
    assert key(0.0) == key(0.0)
    assert key(math.nan) != key(math.inf)


def test_f10_deletes_find_their_float_partition_in_a_real_table() -> None:
    schema = Schema(fields=(Field(id=1, name="k", type=LONG), Field(id=2, name="x", type=DOUBLE)))
    spec = PartitionSpec(fields=(PartitionField(source_id=2, field_id=1000, name="x", transform=IDENTITY),))
    maker = TableMaker(schema, specs=[spec])
    keys = Schema(fields=schema.fields[:1])
    for value in (math.nan, 0.0, -0.0):
        maker.manifest([maker.data_file([{"k": 1, "x": value}], partition=(value,))], sequence_number=1)
    for value in (math.nan, -0.0):
        maker.manifest([maker.equality_deletes(keys, [{"k": 1}], partition=(value,))], sequence_number=2)
    left = maker.table().scan().to_arrow().column("x").to_pylist()
    assert [math.copysign(1, value) for value in left] == [1.0]


# ---------------------------------------------------------------- named files


def test_a_position_delete_that_names_a_file_applies_to_it_alone() -> None:
    deletes = index([positions(9, referenced_data_file=DATA)])
    assert deletes.applying_to(data())
    assert not deletes.applying_to(data("mem://t/data/b.parquet"))


def test_a_position_delete_whose_bounds_meet_names_a_file() -> None:
    deletes = index([positions(9)], bounds=(DATA, DATA))
    assert deletes.applying_to(data())
    assert not deletes.applying_to(data("mem://t/data/b.parquet"))


def test_a_position_delete_reaches_only_paths_between_its_bounds() -> None:
    deletes = index([positions(9)], bounds=("mem://t/data/b.parquet", "mem://t/data/d.parquet"))
    reached = [p for p in "abcde" if deletes.applying_to(data(f"mem://t/data/{p}.parquet"))]
    assert reached == ["b", "c", "d"]


def test_bounds_that_were_cut_and_not_rounded_up_lose_no_delete() -> None:
    cut = DATA[:16]
    deletes = index([positions(9)], bounds=(cut, cut))
    assert deletes.applying_to(data())
    assert deletes.applying_to(data(f"{cut}/another.parquet"))
    assert not deletes.applying_to(data("mem://t/data/b.parquet"))


@pytest.mark.parametrize("bounds", [(None, None), (None, DATA), (DATA, None)])
def test_a_missing_path_bound_leaves_nothing_out(bounds: tuple[str | None, str | None]) -> None:
    assert index([positions(9)], bounds=bounds).applying_to(data("mem://t/data/zzz.parquet"))


def test_h5_a_location_spelt_without_its_host_is_the_same_file() -> None:
    spelt_short = "file:/data/t/x.parquet"
    for one in (positions(9, referenced_data_file=spelt_short), vector(9, spelt_short)):
        assert index([one]).applying_to(data("file:///data/t/x.parquet"))
        assert not index([one]).applying_to(data("s3://bucket/data/t/x.parquet"))


# ---------------------------------------------------------------- deletion vectors


def test_h7_a_vector_has_absorbed_the_position_deletes_before_it() -> None:
    deletes = index([positions(5), positions(6, referenced_data_file=DATA), vector(7), equality(8)])
    assert names(deletes.applying_to(data())) == ["dv.puffin", "eq.parquet"]


def test_h7_other_files_of_the_partition_keep_their_position_deletes() -> None:
    deletes = index([positions(5), vector(7)])
    assert names(deletes.applying_to(data("mem://t/data/b.parquet"))) == ["pos.parquet"]


def test_h7_a_vector_older_than_its_file_absorbs_nothing() -> None:
    assert names(index([positions(5), vector(4)]).applying_to(data())) == ["pos.parquet"]


def test_h7_of_two_vectors_the_newer_counts() -> None:
    newer = vector(7, path="mem://t/data/new.puffin")
    assert names(index([newer, vector(6)]).applying_to(data())) == ["new.puffin"]
    assert names(index([vector(6), newer]).applying_to(data())) == ["new.puffin"]


def test_h7_two_vectors_of_one_commit_for_one_file_are_refused() -> None:
    with pytest.raises(Corrupt, match=r"a\.parquet has two deletion vectors, the other in mem://t/data/dv\.puffin"):
        index([vector(6), vector(6, path="mem://t/data/dv2.puffin")])


def test_h8_a_vector_must_name_its_data_file() -> None:
    with pytest.raises(Corrupt, match=r"dv\.puffin is corrupt: a deletion vector does not name its data file"):
        index([replace(vector(6), referenced_data_file=None)])


def test_h8_a_vector_applies_by_its_reference_whatever_partition_it_claims() -> None:
    assert index([vector(6, partition=("us",))]).applying_to(data())


# ---------------------------------------------------------------- the index as a whole


def test_a_removed_delete_file_applies_to_nothing() -> None:
    deletes = index([equality(9), positions(9)], status=EntryStatus.DELETED)
    assert not deletes
    assert deletes.applying_to(data()) == ()


def test_deletes_are_read_only_when_there_is_data_for_them() -> None:
    schema = Schema(fields=(Field(id=1, name="k", type=LONG), Field(id=2, name="region", type=STRING)))
    spec = replace(BY_REGION, spec_id=0)
    maker = TableMaker(schema, specs=[spec])
    maker.manifest([maker.data_file([{"k": 1, "region": "eu"}], partition=("eu",))])
    keys = Schema(fields=schema.fields[:1])
    maker.manifest([maker.equality_deletes(keys, [{"k": 1}], partition=("eu",))], sequence_number=2)
    plan = maker.table().scan("region = 'us'").plan()
    assert plan.funnel.manifests_read == 0
    assert plan.funnel.deletes_kept == 0


def test_h10_a_filter_on_another_column_never_loses_an_equality_delete() -> None:
    """The delete file's own statistics say that no row of it matches, and yet it deletes rows that do."""
    schema = Schema(fields=(Field(id=1, name="k", type=LONG), Field(id=2, name="v", type=LONG)))
    maker = TableMaker(schema)
    maker.manifest([maker.data_file([{"k": 1, "v": 100}, {"k": 2, "v": 200}])], sequence_number=1)
    # Some writers keep the whole row beside the key; its other values are of another time.
    whole = maker.equality_deletes(schema, [{"k": 1, "v": -1}], equality_ids=(1,))
    maker.manifest([whole], sequence_number=2)
    assert maker.table().scan("v >= 100").to_arrow().to_pylist() == [{"k": 2, "v": 200}]
