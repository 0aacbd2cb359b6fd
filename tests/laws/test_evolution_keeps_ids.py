"""Whatever is done to a table's definition, an id means one column for ever, so old data reads as it was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from esker.errors import InvalidInput, Unsupported
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.iceberg.metadata.write_table_metadata import encode_table_metadata
from esker.model.evolution.schema_rules import can_promote
from esker.model.schema import walk
from esker.model.table_names import TableName
from esker.model.transform import VoidTransform
from esker.model.types import is_nested
from esker.ports.catalog import TableState
from esker.tree.table_metadata import TableMetadata
from esker.write.definition.alter import Alteration
from esker.write.definition.new_table import define_table

START = (
    "a int not null, b string, c date, s struct<x: int, y: float>, l array<struct<x: int>>, "
    "m map<string, struct<y: int>>"
)
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "s", "s.x", "s.z", "l.element.x", "l.z", "m.value.y", "m.z"])
TYPES = st.sampled_from(["int", "bigint", "string", "double", "date", "struct<x: int, q: array<int>>", "timestamp_ntz"])
TERMS = st.sampled_from(["a", "b", "day(c)", "month(c)", "bucket(4, a)", "truncate(2, b)", "s.x", "bucket(4, d)", "e"])
Verb = Callable[[Alteration], None]


@st.composite
def verbs(draw: st.DrawFn) -> Verb:
    name, other, type_, term = draw(NAMES), draw(NAMES), draw(TYPES), draw(TERMS)
    version = draw(st.integers(1, 3))
    doc = str(draw(st.uuids()))  # tells one column from every other that ever was
    if draw(st.booleans()):  # what comes and goes under few names is what could be taken for another
        come, go = draw(st.sampled_from(["d", "s.z", "l.z"])), draw(st.sampled_from(["d", "s.z", "l.element.z"]))
        return (lambda c: c.add_column(come, type_, doc=doc)) if draw(st.booleans()) else lambda c: c.drop_column(go)
    known: list[Verb] = [
        lambda c: c.add_column(name, type_, doc=doc),
        lambda c: c.drop_column(name),
        lambda c: c.rename_column(name, other.rsplit(".", 1)[-1]),
        lambda c: c.widen_column(name, type_),
        lambda c: c.move_column(name, after=other),
        lambda c: c.move_column(name, first=True),
        lambda c: c.make_optional(name),
        lambda c: c.add_partition(term),
        lambda c: c.drop_partition(term),
        lambda c: c.set_sort_order(term),
        lambda c: c.upgrade_format(version),
    ]
    return draw(st.sampled_from(known))


def apply(metadata: TableMetadata, block: list[Verb]) -> TableMetadata:
    """The block as it would be committed; a verb that is refused is left out, as a user may catch it."""
    state = TableState(metadata=metadata, metadata_location="memory://t/v1.metadata.json")
    change = Alteration(catalog=cast(Any, None), name=TableName(("db",), "t"), base=state, done=lambda _: None)
    for verb in block:
        with suppress(InvalidInput, Unsupported):
            verb(change)
    try:
        return change.apply(metadata)
    except InvalidInput:  # the last column
        return metadata


@settings(max_examples=60)
@given(st.integers(1, 3), st.lists(st.lists(verbs(), min_size=1, max_size=4), min_size=1, max_size=8))
def test_an_id_means_one_column_for_ever(version: int, blocks: list[list[Verb]]) -> None:
    metadata = define_table(schema=START, location="memory://t", format_version=version)
    meaning = {field.id: field.doc for field, _ in walk(metadata.schema.fields)}
    types = {field.id: field.type for field, _ in walk(metadata.schema.fields)}
    partitions: dict[int, object] = {}
    for block in blocks:
        after = apply(metadata, block)
        seen = [field.id for field, _ in walk(after.schema.fields)]
        assert len(seen) == len(set(seen))
        assert after.last_column_id >= max(metadata.last_column_id, *seen)
        for field, _ in walk(after.schema.fields):
            if field.id not in meaning:
                assert field.id > metadata.last_column_id  # new, not one that was dropped
            assert meaning.setdefault(field.id, field.doc) == field.doc
            old = types.get(field.id, field.type)
            assert is_nested(old) or old == field.type or can_promote(old, field.type, after.format_version)
            types[field.id] = field.type
        for spec in after.specs:
            ids = [field.field_id for field in spec.fields]
            assert len(ids) == len(set(ids))
            for partition in spec.fields:
                if not isinstance(partition.transform, VoidTransform):
                    what = (partition.source_id, partition.transform)
                    assert partitions.setdefault(partition.field_id, what) == what
        assert {field.source_id for field in after.sort_order.fields} <= set(seen)
        assert len({(s.fields, s.identifier_field_ids) for s in after.schemas}) == len(after.schemas)
        metadata = after
    read = decode_table_metadata("t", encode_table_metadata(metadata))
    assert (read.schemas, read.specs, read.sort_orders) == (metadata.schemas, metadata.specs, metadata.sort_orders)
