"""Merging versions of rows: what columns give is what a loop over the versions of each key gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.arrow.read.merge_rows import merge_versions
from esker.errors import Unsupported
from esker.ports.merge import ROW_KIND, SEQUENCE, Aggregate, MergeEngine, MergeRule, SequenceGroup

KEY, A, B, C, G, H = 1, 2, 3, 4, 5, 6
COLUMNS = (KEY, A, B, C, G, H)
Row = dict[int, Any]


def rows_of(rows: list[Row]) -> pa.Table:
    fields = [(str(id_), pa.int64()) for id_ in (*COLUMNS, SEQUENCE.id)] + [(str(ROW_KIND.id), pa.int32())]
    return pa.table({name: pa.array([row[int(name)] for row in rows], type_) for name, type_ in fields})


def merged(rows: list[Row], rule: MergeRule) -> dict[int, Row]:
    found = merge_versions(rows_of(rows), rule, COLUMNS, "file").to_pylist()
    by_key = {row[str(KEY)]: {id_: row[str(id_)] for id_ in COLUMNS} for row in found}
    assert len(by_key) == len(found), "a key is there twice"
    return by_key


def is_live(row: Row) -> bool:
    return row[ROW_KIND.id] in (0, 2)


def versions_of(rows: list[Row], rule: MergeRule) -> dict[int, list[Row]]:
    """The versions of each key in order, without those that the rule leaves out."""

    def order(row: Row) -> tuple[Any, ...]:
        fields = [(row[id_] is not None, row[id_] or 0) for id_ in rule.order]
        return (*fields, row[SEQUENCE.id], is_live(row))

    found: dict[int, list[Row]] = {}
    for row in sorted(rows, key=order):
        if rule.engine is MergeEngine.PARTIAL_UPDATE or not rule.ignores_deletes or is_live(row):
            found.setdefault(row[KEY], []).append(row)
    return found


def model(rows: list[Row], rule: MergeRule) -> dict[int, Row]:
    found = {}
    for key, versions in versions_of(rows, rule).items():
        row = _MODELS[rule.engine](versions, rule)
        if row is not None:
            found[key] = {id_: row.get(id_) for id_ in COLUMNS}
    return found


def _deduplicate(versions: list[Row], rule: MergeRule) -> Row | None:
    return versions[-1] if is_live(versions[-1]) else None


def _first(versions: list[Row], rule: MergeRule) -> Row | None:
    return next((row for row in versions if is_live(row)), None)


def _partial_update(versions: list[Row], rule: MergeRule) -> Row | None:
    """As Paimon's own merge function does it: version by version, into one row. The only version is not merged."""
    if len(versions) == 1:
        return versions[0] if is_live(versions[0]) else None
    row: Row = {KEY: versions[0][KEY]}
    group_of = {id_: group for group in rule.groups for id_ in (*group.order, *group.columns)}
    has_insert = is_filled = is_deleted = False
    for version in versions:
        if not is_live(version) and not is_filled:
            row = dict(version)  # a delete that comes first gives its values
        is_filled, is_deleted = True, False
        if not is_live(version) and (rule.ignores_deletes or not rule.groups):
            if rule.deletes_whole_rows:
                row, is_deleted = dict(version), True
            continue
        has_insert |= is_live(version)
        moved = {group: _moves(version, row, group) for group in rule.groups}
        for id_ in (A, B, C, G, H):
            group = group_of.get(id_)
            if group is None:
                if is_live(version) and version[id_] is not None:
                    row[id_] = version[id_]
            elif moved[group]:
                row[id_] = version[id_] if is_live(version) or id_ in group.order else None
    return row if has_insert and not is_deleted else None


def _moves(version: Row, row: Row, group: SequenceGroup) -> bool:
    if all(version[id_] is None for id_ in group.order):
        return False
    new, old = ([(one.get(id_) is not None, one.get(id_) or 0) for id_ in group.order] for one in (version, row))
    return new >= old


def _aggregation(versions: list[Row], rule: MergeRule) -> Row | None:
    row: Row = {KEY: versions[0][KEY]}
    for id_ in (A, B, C, G, H):
        values = [version[id_] for version in versions]
        known = [value for value in values if value is not None]
        row[id_] = _FUNCTIONS[rule.functions.get(id_, Aggregate.LAST_NOT_NULL)](values, known)
    return row


_FUNCTIONS: dict[Aggregate, Any] = {
    Aggregate.SUM: lambda values, known: sum(known) if known else None,
    Aggregate.MAX: lambda values, known: max(known, default=None),
    Aggregate.MIN: lambda values, known: min(known, default=None),
    Aggregate.ANY: lambda values, known: max(known, default=None),
    Aggregate.ALL: lambda values, known: min(known, default=None),
    Aggregate.FIRST: lambda values, known: values[0],
    Aggregate.LAST: lambda values, known: values[-1],
    Aggregate.FIRST_NOT_NULL: lambda values, known: known[0] if known else None,
    Aggregate.LAST_NOT_NULL: lambda values, known: known[-1] if known else None,
}
_MODELS = {
    MergeEngine.DEDUPLICATE: _deduplicate,
    MergeEngine.FIRST_ROW: _first,
    MergeEngine.PARTIAL_UPDATE: _partial_update,
    MergeEngine.AGGREGATION: _aggregation,
}
GROUPS = (SequenceGroup((G,), (A,)), SequenceGroup((H,), (B,)))
WIDE_GROUP = (SequenceGroup((G, H), (A, B)),)


@st.composite
def versions(draw: st.DrawFn, kinds: tuple[int, ...] = (0, 1, 2, 3)) -> list[Row]:
    small = st.none() | st.integers(-3, 3)
    count = draw(st.integers(1, 12))
    return [
        {
            KEY: draw(st.integers(0, 3)),
            **{id_: draw(small) for id_ in (A, B, C, G, H)},
            SEQUENCE.id: number,
            ROW_KIND.id: draw(st.sampled_from(kinds)),
        }
        for number in draw(st.permutations(range(count)))
    ]


@given(
    rows=versions(),
    rule=st.builds(
        MergeRule,
        engine=st.sampled_from((MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)),
        keys=st.just((KEY,)),
        order=st.sampled_from(((), (G,), (G, H))),
        ignores_deletes=st.booleans(),
    ),
)
def test_the_last_or_the_first_version_of_a_key_is_its_row(rows: list[Row], rule: MergeRule) -> None:
    assert merged(rows, rule) == model(rows, rule)


@given(
    rows=versions(),
    groups=st.sampled_from((GROUPS, WIDE_GROUP)),
    order=st.sampled_from(((), (C,))),
    ignores=st.booleans(),
)
def test_a_sequence_group_moves_together(
    rows: list[Row], groups: tuple[SequenceGroup, ...], order: tuple[int, ...], ignores: bool
) -> None:
    rule = MergeRule(
        engine=MergeEngine.PARTIAL_UPDATE, keys=(KEY,), order=order, groups=groups, ignores_deletes=ignores
    )
    assert merged(rows, rule) == model(rows, rule)


@given(rows=versions(kinds=(0, 2, 3)), whole=st.booleans())
def test_a_partial_update_takes_the_last_value_of_each_column(rows: list[Row], whole: bool) -> None:
    rule = MergeRule(
        engine=MergeEngine.PARTIAL_UPDATE, keys=(KEY,), ignores_deletes=not whole, deletes_whole_rows=whole
    )
    assert merged(rows, rule) == model(rows, rule)


@given(rows=versions(kinds=(0, 2)), data=st.data())
def test_an_aggregation_is_the_function_of_all_values(rows: list[Row], data: st.DataObject) -> None:
    functions = {id_: data.draw(st.sampled_from(list(Aggregate))) for id_ in (A, B, C)}
    rule = MergeRule(engine=MergeEngine.AGGREGATION, keys=(KEY,), functions=functions)
    assert merged(rows, rule) == model(rows, rule)


@pytest.mark.parametrize("engine", [MergeEngine.AGGREGATION, MergeEngine.PARTIAL_UPDATE])
def test_a_delete_that_cannot_be_merged_is_refused(engine: MergeEngine) -> None:
    row = {**dict.fromkeys(COLUMNS, 1), SEQUENCE.id: 1, ROW_KIND.id: 3}
    with pytest.raises(Unsupported, match=f"merge engine {engine.value}"):
        merged([row], MergeRule(engine=engine, keys=(KEY,)))


def test_texts_and_booleans_have_a_largest_and_a_smallest_value() -> None:
    rows = pa.table(
        {
            "1": pa.array([1, 1, 2], pa.int64()),
            "2": ["b", "a", None],
            "3": pa.array([False, True, None]),
            str(SEQUENCE.id): pa.array([1, 2, 3], pa.int64()),
            str(ROW_KIND.id): pa.array([0, 0, 0], pa.int32()),
        }
    )
    functions = {2: Aggregate.MAX, 3: Aggregate.ALL}
    rule = MergeRule(engine=MergeEngine.AGGREGATION, keys=(1,), functions=functions)
    found = merge_versions(rows, rule, (1, 2, 3), "file").to_pylist()
    assert found == [{"1": 1, "2": "b", "3": False}, {"1": 2, "2": None, "3": None}]
