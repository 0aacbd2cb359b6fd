"""Random tables with their rows: files over manifests, specs and schemas that change, statistics of any quality."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from held_rows import telling
from hypothesis import strategies as st
from row_formats import fits_avro, fits_orc
from row_oracle import Row, seen_as, value_of
from schema_strategies import KEY, Ids, evolved, first_schema, leaves_of, values_in
from statistics_of import bounds, edges, is_nan, partition_of, usable
from table_maker import TableMaker

from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import IdentityTransform, Transform
from esker.model.types import Field, ListType, StructType, is_floating
from esker.tree.data_file import DataFile, Metrics
from esker.tree.manifest import EntryStatus, ManifestEntry

Path = tuple[Field, ...]


@dataclass(repr=False)
class Written:
    """A data file and what was written into it."""

    data_file: DataFile
    rows: list[Row]
    schema: Schema  # at the time
    spec: PartitionSpec
    dead: set[int] = field(default_factory=set)  # positions that some delete takes out

    def __repr__(self) -> str:
        file = self.data_file
        name = file.path.rpartition("/")[2]
        return (
            f"{name}(seq {file.sequence_number}, spec {file.spec_id} {file.partition}, {file.metrics}, "
            f"columns {[*map(str, self.schema)]}, rows {self.rows}, dead {self.dead})"
        )

    @property
    def scope(self) -> tuple[int, Any]:
        """Where deletes reach it: spec and partition, the zeros apart and the NaNs together."""
        return self.spec.spec_id, telling(self.data_file.partition)


@dataclass(repr=False)
class Story:
    """A table, and all it takes to know its rows without reading it."""

    maker: TableMaker
    ids: Ids
    files: list[Written] = field(default_factory=list)
    specs: list[PartitionSpec] = field(default_factory=list)
    parts: dict[tuple[int, Transform], PartitionField] = field(default_factory=dict)
    keys: int = 0

    @property
    def version(self) -> int:
        return self.maker.format_version

    @property
    def schema(self) -> Schema:
        """As it is now."""
        return self.maker.schema

    def __repr__(self) -> str:
        columns = "; ".join(map(str, self.schema))
        return f"<v{self.version} of {columns}, specs {[[*map(str, s.fields)] for s in self.specs]}, {self.files}>"

    def live_rows(self) -> list[dict[int, Any]]:
        """Every row that no delete took, as today's schema shows it."""
        return [
            seen_as(self.schema.fields, row, written.schema.by_id)
            for written in self.files
            for at, row in enumerate(written.rows)
            if at not in written.dead
        ]


@st.composite
def stories(draw: st.DrawFn, *, versions: Sequence[int] = (1, 2, 3)) -> Story:
    """A table written in one to three stretches, its schema and spec changing between them."""
    version = draw(st.sampled_from(versions))
    ids = Ids()
    story = Story(TableMaker(draw(first_schema(ids, version)), format_version=version), ids)
    for stretch in range(draw(st.integers(1, 3))):
        if stretch:
            story.maker.evolve(draw(evolved(story.schema, ids, version, story.specs)))
        if not stretch or draw(st.booleans()):
            story.specs.append(draw(specs(story)))
            story.maker.specs = tuple(story.specs)
        _write(draw, story)
    return story


# ---------------------------------------------------------------- partitioning


@st.composite
def specs(draw: st.DrawFn, story: Story) -> PartitionSpec:
    """A spec over columns of the present schema; a field that was there before keeps its id (F1)."""
    able = [(path[-1], t) for path in leaves_of(story.schema.fields) for t in usable(path[-1].type)]
    able = [(f, t) for f, t in able if f.id != KEY.id]
    size = draw(st.sampled_from([0, 1, 1, 2]))
    chosen = draw(st.lists(st.sampled_from(able), min_size=size and 1, max_size=size, unique=True)) if able else []
    fields = []
    for source, transform in chosen:
        key = (source.id, transform)
        if key not in story.parts:
            id_ = 1000 + len(story.parts)
            story.parts[key] = PartitionField(source_id=source.id, field_id=id_, name=f"p{id_}", transform=transform)
        fields.append(story.parts[key])
    return PartitionSpec(spec_id=len(story.specs), fields=tuple(fields))


def _partition(story: Story, spec: PartitionSpec, row: Row, *, old: bool) -> tuple[Any, ...]:
    """The row's partition; a source that was dropped since has nothing to say."""
    found = []
    for part in spec.fields:
        path = story.schema.path_by_id.get(part.source_id)
        value = None if path is None else value_of(row, path)
        found.append(None if path is None else partition_of(part.transform, path[-1].type, value, old=old))
    return tuple(found)


# ---------------------------------------------------------------- rows and files


def _write(draw: st.DrawFn, story: Story) -> None:
    """One stretch: some rows, divided by partition into files, and these over manifests."""
    spec, old = story.specs[-1], draw(st.booleans())
    groups: dict[Any, tuple[tuple[Any, ...], list[Row]]] = {}
    for row in _rows(draw, story):
        partition = _partition(story, spec, row, old=old)
        groups.setdefault(telling(partition), (partition, []))[1].append(row)
    as_v1 = story.version == 1 or draw(st.integers(0, 4)) == 0  # an upgraded table keeps its old manifests (A8)
    number = 0 if as_v1 else draw(st.integers(0, 4))
    if draw(st.integers(0, 3)) == 0:  # a task that found no rows, and wrote its file all the same
        groups["empty"] = (next(iter(groups.values()))[0], [])
    written = [_file(draw, story, spec, partition, rows, number) for partition, rows in groups.values()]
    story.files += written
    cut = draw(st.integers(0, len(written)))
    for some in (written[:cut], written[cut:]):
        if some:
            _manifest(draw, story, spec, [w.data_file for w in some], number, version=1 if as_v1 else None)


def _rows(draw: st.DrawFn, story: Story) -> Iterator[Row]:
    """Rows of the present schema, of few distinct values so that bounds and literals meet."""
    pools = {path[-1].id: _pool(draw, path[-1], story.version) for path in leaves_of(story.schema.fields)}
    for _ in range(draw(st.integers(1, 6))):
        story.keys += 1
        yield {KEY.id: story.keys, **{f.id: _value(draw, f, pools) for f in story.schema if f.id != KEY.id}}


def _pool(draw: st.DrawFn, f: Field, version: int) -> list[Any]:
    found = draw(st.lists(values_in(f.type, version), min_size=1, max_size=3))
    if is_floating(f.type) and draw(st.booleans()):
        found.append(math.nan)
    return found if f.required else [None, *found]


def _value(draw: st.DrawFn, f: Field, pools: Mapping[int, list[Any]]) -> Any:
    match f.type:
        case StructType(members):
            if not f.required and draw(st.integers(0, 3)) == 0:
                return None
            return {m.id: _value(draw, m, pools) for m in members}
        case ListType():
            return draw(st.sampled_from([None, [], [None]]))
        case _:
            return draw(st.sampled_from(pools[f.id]))


def named(fields: Sequence[Field], row: Row | None) -> dict[str, Any] | None:
    """A row by the names its columns have now."""
    if row is None:
        return None
    return {f.name: named(f.type.fields, row[f.id]) if isinstance(f.type, StructType) else row[f.id] for f in fields}


def _file(
    draw: st.DrawFn, story: Story, spec: PartitionSpec, partition: tuple[Any, ...], rows: list[Row], number: int
) -> Written:
    kept = _stored(draw, story.schema, spec)
    formats = ["parquet"] * 4 + ["orc"] * fits_orc(kept) + ["avro"] * fits_avro(kept)
    data_file = story.maker.data_file(
        [named(kept.fields, row) or {} for row in rows],
        schema=kept,
        file_format=draw(st.sampled_from(formats)),
        row_group_size=draw(st.integers(1, 4)),
        with_statistics=draw(st.booleans()),
        spec_id=spec.spec_id,
        partition=partition,
        sequence_number=number,
        file_sequence_number=number,
        metrics=_metrics(draw, story.schema, rows),
    )
    return Written(data_file, rows, story.schema, spec)


def _stored(draw: st.DrawFn, schema: Schema, spec: PartitionSpec) -> Schema:
    """What of the schema a file holds: a writer may leave out what the partition says already (E1)."""
    said = {part.source_id for part in spec.fields if isinstance(part.transform, IdentityTransform)}
    if not said or draw(st.booleans()):
        return schema
    return Schema(fields=tuple(f for f in schema if f.id not in said))


def _metrics(draw: st.DrawFn, schema: Schema, rows: list[Row]) -> Metrics | None:
    """Statistics: none, exact, or of each column whatever its writer gave."""
    way = draw(st.sampled_from(["none", "exact", "some", "some"]))
    if way == "none":
        return None
    found: dict[str, dict[int, Any]] = {name: {} for name in _MAPS}
    for path in leaves_of(schema.fields):
        present = [row for row in rows if len(path) == 1 or value_of(row, path[:-1]) is not None]
        # some writers do not count the members of a struct that is null
        counted = present if way == "some" and draw(st.booleans()) else rows
        _describe(draw, found, path[-1], [value_of(row, path) for row in counted], exact=way == "exact")
    return Metrics(**found)


_MAPS = ("value_counts", "null_counts", "nan_counts", "lower_bounds", "upper_bounds")


def _describe(draw: st.DrawFn, found: dict[str, dict[int, Any]], f: Field, held: list[Any], *, exact: bool) -> None:
    lower, upper = edges(f.type, held) if exact else draw(bounds(f.type, held))
    facts = {
        "value_counts": len(held),
        "null_counts": sum(value is None for value in held),
        "nan_counts": sum(map(is_nan, held)) if is_floating(f.type) else None,
        "lower_bounds": lower,
        "upper_bounds": upper,
    }
    keep = st.just(True) if exact else st.sampled_from([True, True, False])
    for name, fact in facts.items():
        if fact is not None and (name.endswith("bounds") or draw(keep)):
            found[name][f.id] = fact


# ---------------------------------------------------------------- manifests


def _manifest(
    draw: st.DrawFn, story: Story, spec: PartitionSpec, files: list[DataFile], number: int, *, version: int | None
) -> None:
    status = draw(st.sampled_from([EntryStatus.ADDED, EntryStatus.EXISTING]))
    entries: list[DataFile | ManifestEntry] = list(files)
    if draw(st.integers(0, 3)) == 0:  # a file that is gone: its entry is history
        gone = replace(files[0], path=f"{story.maker.location}/data/gone-{number}.parquet")
        entries.append(ManifestEntry(data_file=gone, status=EntryStatus.DELETED, snapshot_id=1))
    story.maker.manifest(
        entries,
        spec=spec,
        status=status,
        version=version,
        sequence_number=number,
        **draw(st.sampled_from(_bent(story.version))),
    )


def _bent(table_version: int) -> list[dict[str, Any]]:
    """How a row of the list may lack what it could say."""
    ways: list[dict[str, Any]] = [{}, {}, {}, {"partitions": None}, {"length": 1}]
    if table_version == 1:
        ways.append({"added_files": None, "existing_files": None, "deleted_files": None, "partitions": None})
        ways.append({"added_rows": None, "existing_rows": None, "deleted_rows": None})
    return ways
