"""What is kept is chosen by id; the rest is walked over."""

from __future__ import annotations

from typing import Any

import pytest
from avro_cases import as_column, calm, container, containers, ids_below, pruned, read_by_fastavro
from hypothesis import given
from hypothesis import strategies as st

from esker.avro import Projection, decode
from esker.errors import Corrupt, InvalidInput, Unsupported


def bounds(id_: int, value: Any = "bytes", *, key: Any = "int", union: bool = True) -> dict[str, Any]:
    """A statistics map as manifests store it."""
    fields = [{"name": "key", "type": key, "field-id": id_ + 1}, {"name": "value", "type": value, "field-id": id_ + 2}]
    entry = {"type": "record", "name": f"k{id_ + 1}_v{id_ + 2}", "fields": fields}
    array = {"type": "array", "logicalType": "map", "items": entry}
    return {"name": f"bounds{id_}", "type": ["null", array] if union else array, "field-id": id_}


def entries(*pairs: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in pairs]


def row(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "row", "fields": list(fields)}


@calm
@given(containers(), st.data())
def test_a_projection_equals_the_whole_with_the_rest_left_out(case: Any, data: st.DataObject) -> None:
    _, _, file = case
    whole = decode(file, file="f")
    ids = set(data.draw(st.lists(st.sampled_from(sorted(ids_below(whole.schema))), max_size=5)))
    columns = decode(file, file="f", want=Projection.of(ids))
    columns.batch.validate(full=True)
    kept = pruned(whole.schema, ids)
    assert columns.batch.to_pylist() == [as_column(kept, record) for record in read_by_fastavro(file)]


def test_a7_fields_are_found_by_id_under_any_name() -> None:
    new = row({"name": "added_files_count", "type": "int", "field-id": 504})
    old = row({"name": "added_data_files_count", "type": "int", "field-id": 504})
    for schema in (new, old):
        data = container(schema, [{schema["fields"][0]["name"]: 3}])
        assert decode(data, file="f", want=Projection.of([504])).batch.column(0).to_pylist() == [3]


def test_fields_without_ids_are_found_by_the_names_given() -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}]}
    data = container(row({"name": "a", "type": inner}, {"name": "x", "type": "int"}), [{"a": {"x": 1, "y": 2}, "x": 3}])
    batch = decode(data, file="f", want=Projection.of([100], names={"a.x": 100})).batch
    assert batch.to_pylist() == [{"a": {"x": 1}}]
    assert batch.schema.field("a").type.field("x").metadata == {b"field-id": b"100"}


def test_an_id_nobody_has_keeps_nothing_but_the_row_count() -> None:
    batch = decode(container(row(bounds(125)), [{"bounds125": None}] * 3), file="f", want=Projection.of([9])).batch
    assert (batch.num_columns, batch.num_rows) == (0, 3)


def test_picked_keys_become_columns() -> None:
    rows = [
        {"bounds125": entries((1, b"a"), (2, b"b"), (3, b"c")), "n": 1},
        {"bounds125": None, "n": 2},
        {"bounds125": [], "n": 3},
        {"bounds125": entries((3, b"old"), (9, b"z"), (3, b"new")), "n": 4},
    ]
    schema = row(bounds(125), {"name": "n", "type": "int", "field-id": 1})
    want = Projection.of([1], map_keys={125: [3, 1, 3]})
    batch = decode(container(schema, rows), file="f", want=want).batch
    assert batch.to_pylist() == [
        {"bounds125": {"3": b"c", "1": b"a"}, "n": 1},
        {"bounds125": None, "n": 2},
        {"bounds125": {"3": None, "1": None}, "n": 3},
        {"bounds125": {"3": b"new", "1": None}, "n": 4},
    ]
    assert batch.column(0).field("3").to_pylist() == [b"c", None, None, b"new"]
    assert batch.schema.field(0).metadata == {b"field-id": b"125"}
    assert batch.schema.field(0).type.field("3").metadata == {b"field-id": b"127"}


_ENTRIES = st.lists(st.tuples(st.integers(-3, 6), st.none() | st.binary(max_size=3)), max_size=6)


@calm
@given(st.lists(st.none() | _ENTRIES, max_size=5), st.lists(st.integers(-4, 7), max_size=5))
def test_picking_equals_looking_up_the_last_of_each_key(maps: list[Any], keys: list[int]) -> None:
    data = container(row(bounds(125, ["null", "bytes"])), [{"bounds125": m and entries(*m)} for m in maps])
    batch = decode(data, file="f", want=Projection.of([], map_keys={125: keys})).batch
    for key in keys:
        assert batch.column(0).field(str(key)).to_pylist() == [dict(m or ()).get(key) for m in maps]
    assert batch.column(0).is_null().to_pylist() == [m is None for m in maps]


def test_values_of_any_type_can_be_picked() -> None:
    nested = {"type": "record", "name": "v", "fields": [bounds(300, "long"), {"name": "s", "type": "string"}]}
    rows = [{"bounds125": entries((1 << 40, {"bounds300": entries((1, 5)), "s": "x"}))}]
    data = container(row(bounds(125, nested, key="long", union=False)), rows)
    batch = decode(data, file="f", want=Projection.of(map_keys={125: [1 << 40], 300: [1, 2]})).batch
    assert batch.to_pylist() == [{"bounds125": {str(1 << 40): {"bounds300": {"1": 5, "2": None}, "s": "x"}}}]


def test_a2_an_array_of_keys_and_values_is_a_map_with_its_ids() -> None:
    batch = decode(container(row(bounds(125, "long")), [{"bounds125": entries((1, 10), (2, 20))}]), file="f").batch
    assert batch.to_pylist() == [{"bounds125": [(1, 10), (2, 20)]}]
    type_ = batch.schema.field(0).type
    assert type_.key_field.metadata == {b"field-id": b"126"}
    assert type_.item_field.metadata == {b"field-id": b"127"}
    assert not type_.key_field.nullable


def test_an_array_whose_keys_may_be_null_is_a_map_without_null_keys() -> None:
    """Paimon's Java library writes maps in this way."""
    schema = row(bounds(125, "long", key=["null", "int"]))
    batch = decode(container(schema, [{"bounds125": entries((7, 1), (8, 2))}]), file="f").batch
    assert batch.to_pylist() == [{"bounds125": [(7, 1), (8, 2)]}]
    batch.validate(full=True)
    with pytest.raises(Corrupt, match="a map has a null key"):
        decode(container(schema, [{"bounds125": entries((None, 1))}]), file="f")


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ({"name": "x", "type": "int", "field-id": 125}, "Cannot pick keys of the Avro field 'x': it is not a map"),
        ({"name": "x", "type": {"type": "map", "values": "int"}, "field-id": 125}, "'x': it is not a map"),
        ({**bounds(125, key="string"), "name": "x"}, "'x': its keys are not ints"),
    ],
)
def test_keys_of_what_has_none_cannot_be_picked(field: Any, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        decode(container(row(field), []), file="f", want=Projection.of(map_keys={125: [1]}))


def test_more_columns_than_anyone_needs_are_refused() -> None:
    with pytest.raises(InvalidInput, match="Cannot decode an Avro file into more than 262144 columns"):
        decode(container(row(bounds(125)), []), file="f", want=Projection.of(map_keys={125: range(1 << 19)}))


def test_equal_projections_are_one_key_of_a_cache() -> None:
    assert Projection.of([2, 1], map_keys={125: [3]}) == Projection.of({1, 2}, map_keys={125: (3, 3)})
    assert hash(Projection.of([1], names={"a": 1})) == hash(Projection.of([1], names={"a": 1}))
