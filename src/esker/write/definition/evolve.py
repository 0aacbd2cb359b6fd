"""Schema evolution during a write: adds columns that the source has and the table does not, and widens types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from esker.errors import InvalidInput
from esker.model.evolution.nested_fields import named, parts_of
from esker.model.evolution.schema_change import NewColumn
from esker.model.evolution.schema_rules import can_promote
from esker.model.parsing.tokens import Kind, tokens_of
from esker.model.predicates.predicate_sql import quote_name
from esker.model.types import Field, ListType, MapType, StructType, Type, children
from esker.ports.row_changes import DeleteRow, RowChange, Side, SqlText, Wanted
from esker.tree.table_metadata import TableMetadata
from esker.write.definition.alter import with_column, with_wider
from esker.write.definition.draft import Draft
from esker.write.properties import switch

_ALLOWED = "write.spark.auto-schema-evolution.enabled"  # Iceberg's runtime has it; true by default


def may_evolve(metadata: TableMetadata) -> bool:
    """Whether the table allows statements to add columns."""
    return switch(metadata.properties, _ALLOWED, default=True)


def evolved(metadata: TableMetadata, wanted: Iterable[Wanted]) -> TableMetadata:
    """The table with every wanted column, and with wider types if the format allows it; the same object if it has all.

    A type that cannot be widened stays. Whether a value fits is checked when it is written.
    """
    draft = Draft.of(metadata)
    for one in wanted:
        draft = _grown(draft, (), one.path, one)
    return draft.finished()


def _grown(draft: Draft, above: tuple[str, ...], rest: tuple[str, ...], wanted: Wanted) -> Draft:
    field = named(_level(draft, above), rest[0])
    if field is None:
        if len(rest) > 1:
            raise InvalidInput(
                f"cannot add column {'.'.join((*above, *rest))!r}: there is no struct {'.'.join((*above, rest[0]))!r}",
                column=".".join((*above, *rest)),
            )
        return with_column(draft, NewColumn(name=_quoted((*above, rest[0])), type=wanted.type))
    path = (*above, field.name)
    if len(rest) > 1:
        return _grown(draft, path, rest[1:], wanted)
    return _fitted(draft, path, field.type, wanted.type, wanted.by_place)


def _fitted(draft: Draft, path: tuple[str, ...], old: Type, new: Type, by_place: bool) -> Draft:
    match old, new:
        case StructType(), StructType():
            for at, member in enumerate(new.fields):
                there = by_place and at < len(old.fields)
                name = old.fields[at].name if there else member.name
                draft = _grown(draft, path, (name,), Wanted((name,), member.type, by_place))
            return draft
        case ListType(), ListType():
            return _fitted(draft, (*path, "element"), old.element, new.element, by_place)
        case MapType(), MapType():  # keys do not change
            return _fitted(draft, (*path, "value"), old.value, new.value, by_place)
        case _ if old != new and can_promote(old, new, draft.format_version):
            return with_wider(draft, _quoted(path), new)
        case _:
            return draft


def _level(draft: Draft, above: tuple[str, ...]) -> tuple[Field, ...]:
    level = draft.schema.fields
    for name in above:
        level = children(next(field for field in level if field.name == name).type)
    return level


def _quoted(path: Iterable[str]) -> str:
    return ".".join(map(quote_name, path))


# ---------------------------------------------------------------- columns that a merge needs


def wanted_of(change: RowChange, source: Sequence[Field]) -> tuple[Wanted, ...]:
    """What the clauses of a merge set: every column of the source by ``*``; else those that are set to the source's
    column of the same name, and no others, as Spark has it."""
    found: list[Wanted] = []
    for clause in change.clauses:
        if isinstance(clause.action, DeleteRow) or clause.side is Side.NOT_MATCHED_BY_SOURCE:
            continue
        if clause.action.values is None:
            found += [Wanted((field.name,), field.type) for field in source]
            continue
        for name, said in clause.action.values.items():
            path = _without(parts_of(name), change.target_name)
            value = _without(_column_path(said), change.source_name)
            type_ = _type_at(source, value)
            if type_ is not None and [part.casefold() for part in path] == [part.casefold() for part in value]:
                found.append(Wanted(path, type_))
    return tuple(dict.fromkeys(found))


def only_in_source(metadata: TableMetadata, source: Sequence[Field]) -> frozenset[str]:
    """The columns that only the source has, in lower case: such a name without a prefix means the source's column."""
    own = {field.name.lower() for field in metadata.schema.fields}
    return frozenset(field.name.lower() for field in source) - own


def _column_path(said: SqlText) -> tuple[str, ...]:
    """The parts of ``s.a.b``; empty for any other expression."""
    tokens = tokens_of(said.shown, "the expression")
    names, dots = tokens[::2], tokens[1::2]
    is_path = len(tokens) % 2 == 1 and all(token.is_sign and token.text == "." for token in dots)
    if not is_path or not all(token.is_quoted or token.kind is Kind.WORD for token in names):
        return ()
    return tuple(token.text for token in names)


def _without(path: tuple[str, ...], qualifier: str) -> tuple[str, ...]:
    return path[1:] if len(path) > 1 and path[0].casefold() == qualifier.casefold() else path


def _type_at(fields: Sequence[Field], path: tuple[str, ...]) -> Type | None:
    if not path:
        return None
    field = named(tuple(fields), path[0])
    if field is None or len(path) == 1:
        return None if field is None else field.type
    return _type_at(field.type.fields, path[1:]) if isinstance(field.type, StructType) else None
