"""A partition member that a writer left out says nothing; it does not say that the column is null."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from manifest_makers import a_file, a_manifest, read_entries

from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.predicates.predicate import Compare, Op
from esker.model.schema import Schema
from esker.model.transform import IDENTITY
from esker.model.types import LONG, Field
from esker.read.prune_manifest import examine_entries

SCHEMA = Schema(fields=(Field(id=1, name="id", type=LONG),))
SPEC = PartitionSpec(fields=(PartitionField(source_id=1, field_id=1000, name="id", transform=IDENTITY),))


def verdict(values: pa.Array) -> bool:
    entries = read_entries(a_manifest([a_file()]))
    partitioned = replace(entries, spec=SPEC, partition=(values,))
    five = Compare(SCHEMA.by_id[1], Op.EQ, 5)
    return bool(examine_entries(five, SCHEMA, partitioned).verdict.some.item())


def test_a_member_the_writer_did_not_have_keeps_the_file() -> None:
    assert verdict(pa.nulls(1))


def test_a_null_among_values_drops_it_and_another_value_too() -> None:
    assert not verdict(pa.array([None], pa.int64()))
    assert not verdict(pa.array(np.array([6])))
    assert verdict(pa.array(np.array([5])))
