"""Random deletes upon random tables: positions, keys and vectors, each with what it takes out by the book."""

from __future__ import annotations

from typing import Any

from held_rows import telling
from hypothesis import strategies as st
from row_oracle import promoted
from schema_strategies import KEY, leaves_of
from table_strategies import Story, Written, named

from esker.model.partition_and_sort import PartitionSpec
from esker.model.schema import Schema
from esker.model.types import Field, is_floating
from esker.tree.data_file import DataFile, FileContent, Metrics

PATH_ID = 2147483546
_NUMBERS = st.integers(0, 5)


@st.composite
def with_deletes(draw: st.DrawFn, base: st.SearchStrategy[Story]) -> Story:
    """A table of version 2 or 3 with one to four delete files, vectors last: they absorb the positions before."""
    story = draw(base)
    hidden: dict[str, set[int]] = {}
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            _delete_positions(draw, story, hidden)
        else:
            _delete_keys(draw, story)
    if story.version >= 3:
        for written in draw(st.lists(st.sampled_from(story.files), max_size=2, unique_by=id)):
            _delete_by_vector(draw, story, written, hidden)
    for written in story.files:
        written.dead |= hidden.get(written.data_file.path, set()) & set(range(len(written.rows)))
    return story


# ---------------------------------------------------------------- positions


def _delete_positions(draw: st.DrawFn, story: Story, hidden: dict[str, set[int]]) -> None:
    """One file of positions in one partition; it reaches data of its own sequence number and below (H1)."""
    first = draw(st.sampled_from(story.files))
    near = [w for w in story.files if w.scope == first.scope]
    chosen = [w for w in near if w is first or draw(st.booleans())]
    number = draw(_NUMBERS)
    pairs = []
    for written in chosen:
        for pos in draw(st.sets(st.integers(0, len(written.rows)), min_size=1, max_size=3)):
            pairs.append((written.data_file.path, pos))
            if written.data_file.sequence_number <= number:
                hidden.setdefault(written.data_file.path, set()).add(pos)
    facts: dict[str, Any] = {"spec_id": first.spec.spec_id, "partition": first.data_file.partition}
    way = draw(st.sampled_from(["plain", "bounds", "reference"]))
    if way == "reference" and len(chosen) == 1:
        facts["referenced_data_file"] = chosen[0].data_file.path
    elif way == "bounds":
        names = [path.encode() for path, _ in pairs]
        facts["metrics"] = Metrics(lower_bounds={PATH_ID: min(names)}, upper_bounds={PATH_ID: max(names)})
    formats = st.sampled_from(["parquet", "parquet", "orc", "avro"])
    _list(story, story.maker.position_deletes(pairs, file_format=draw(formats), **facts), number)


def _delete_by_vector(draw: st.DrawFn, story: Story, written: Written, hidden: dict[str, set[int]]) -> None:
    """A vector over all that position deletes had taken, and a little more (H7)."""
    path, rows = written.data_file.path, len(written.rows)
    number = draw(st.integers(written.data_file.sequence_number, 6))
    before = {pos for pos in hidden.get(path, set()) if pos < rows}
    deleted = before | draw(st.sets(st.integers(0, rows - 1), max_size=3) if rows else st.just(set()))
    hidden.setdefault(path, set()).update(deleted)
    _list(story, story.maker.vector(deleted, written.data_file), number)


# ---------------------------------------------------------------- keys


def _delete_keys(draw: st.DrawFn, story: Story) -> None:
    """Keys over one or two columns that some schema had; they reach data of smaller sequence numbers (H1)."""
    source = draw(st.sampled_from(story.files))
    able = [path[0] for path in leaves_of(source.schema.fields) if len(path) == 1 and not is_floating(path[0].type)]
    fields = draw(st.lists(st.sampled_from(able), min_size=1, max_size=2, unique=True))
    rows = draw(st.lists(st.sampled_from(source.rows), min_size=1, max_size=2)) if source.rows else []
    keys = [{f.id: row[f.id] for f in fields} for row in rows]
    if draw(st.booleans()):  # a key that may be null, or may be nowhere
        keys.append({f.id: KEY.id if f.id == KEY.id else None for f in fields})
    spec, partition, reach = _scope(draw, story, source)
    number = draw(_NUMBERS)
    found = {telling([_now(story, f, key[f.id]) for f in fields]) for key in keys}
    for written in story.files:
        if reach(written) and written.data_file.sequence_number < number:
            for at, row in enumerate(written.rows):
                if telling([_read(story, written, f, row) for f in fields]) in found:
                    written.dead.add(at)
    schema = Schema(fields=tuple(fields))
    delete = story.maker.equality_deletes(
        schema, [named(fields, key) or {} for key in keys], spec_id=spec.spec_id, partition=partition
    )
    _list(story, delete, number)


def _scope(draw: st.DrawFn, story: Story, source: Written) -> tuple[PartitionSpec, tuple[Any, ...], Any]:
    """Where keys apply: in one partition, or everywhere when written under an unpartitioned spec (H2)."""
    free = [spec for spec in story.specs if spec.is_unpartitioned]
    if free and draw(st.booleans()):
        spec = draw(st.sampled_from(free))
        return spec, (None,) * len(spec.fields), lambda _: True
    if source.spec.is_unpartitioned:
        return source.spec, source.data_file.partition, lambda _: True
    return source.spec, source.data_file.partition, lambda written: written.scope == source.scope


def _newest(story: Story, id_: int) -> Field:
    """A column as the newest schema has it that has it at all (H4)."""
    for schema in (story.schema, *reversed(story.maker.older_schemas)):
        if id_ in schema.by_id:
            return schema.by_id[id_]
    raise AssertionError(id_)


def _now(story: Story, f: Field, value: Any) -> Any:
    return promoted(f.type, _newest(story, f.id).type, value)


def _read(story: Story, written: Written, f: Field, row: Any) -> Any:
    """A row's value of a key column; one added after the file was written reads as its default."""
    if f.id in row:
        return _now(story, written.schema.by_id[f.id], row[f.id])
    return _newest(story, f.id).initial_default


def _list(story: Story, delete: DataFile, number: int) -> None:
    assert delete.content is not FileContent.DATA
    story.maker.manifest([delete], sequence_number=number, version=story.version)
