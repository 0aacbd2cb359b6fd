"""Replaces each view of the lake in a query by the view's own query in parentheses.

Names in a view's query are resolved where its version says. So they become full names before the text is moved. The
resulting text names only tables, and is pruned like any other query. The columns have the view's names.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from esker.errors import InvalidInput, NoSuchTable, Unsupported
from esker.model.table_names import TableName
from esker.spark.sql.grammar.statements import Query
from esker.spark.sql.grammar.table_references import Reference
from esker.spark.sql.grammar.words import Span
from esker.spark.sql.guard.lexer import SUBSTITUTED, without_comments
from esker.spark.sql.guard.query_reader import Shape, read_shape
from esker.spark.sql.lake_names import Found, LakeNames
from esker.spark.sql.queries.query_text import Edits, QueryText, quoted_word
from esker.view import View

DEEPEST = 50
LONGEST = 1 << 20  # if each view reads another one twice, the text doubles with every view
SPARK_CATALOG = "spark_catalog"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the names of a view's query are resolved, and the views that lead to it."""

    names: LakeNames  # the version's namespace is the current one
    catalog: str | None  # the version's own catalog, if it has one
    trail: tuple[str, ...]


def with_views(query: Query, read: QueryText, views: dict[Reference, View], names: LakeNames) -> Query:
    """Return the query with these references replaced by queries. Raises ``InvalidInput`` for time travel on a view."""
    edits = Edits(read.words)
    for reference, view in views.items():
        if reference.span.end in read.travels:
            raise InvalidInput(f"cannot read {view.name} as of a version or a time: a view has no snapshots")
        _replace(edits, read, reference, view_text(view, names, ()))
    text = _bounded(edits.done())
    return Query(text, Span(query.body.start, len(text) - (len(query.text) - query.body.end)))


def view_text(view: View, names: LakeNames, trail: tuple[str, ...]) -> str:
    """Return the view's query with the view's columns, in parentheses."""
    if view.name in trail:
        raise InvalidInput(f"cannot read view {view.name}: it reads itself ({' → '.join((*trail, view.name))})")
    if len(trail) >= DEEPEST:
        raise InvalidInput(f"cannot read view {view.name}: more than {DEEPEST} views read one another")
    if view.name not in names.view_texts:
        names.view_texts[view.name] = _under_its_columns(view, _body(view, names, (*trail, view.name)))
    return names.view_texts[view.name]


def _body(view: View, names: LakeNames, trail: tuple[str, ...]) -> str:
    version = view.current_version
    sql = version.sql()
    if sql is None:
        known = ", ".join(version.dialects) or "no SQL at all"
        raise Unsupported(
            f"cannot read view {view.name}: its query is stored in {known}, not in Spark's dialect; "
            "write it in Spark's dialect with CREATE OR REPLACE VIEW",
            feature=f"views in {known}",
        )
    namespace = tuple(version.default_namespace)
    try:
        return full_names(sql, Place(names.within(namespace), version.default_catalog, trail))
    except (InvalidInput, NoSuchTable) as error:
        if view.name in error.message:
            raise
        raise type(error)(f"cannot read view {view.name}: {error.message}", **error.facts) from error


def full_names(sql: str, place: Place) -> str:
    """Return a view's query with the full name of every table of the lake, and with every view replaced by its query.

    Raises ``InvalidInput`` for what a view may not contain.
    """
    read, references = _read(sql, place)
    edits = Edits(read.words)
    for reference in references:
        _replace(edits, read, reference, _meant(reference, place))
    return _bounded(edits.done())


def check_text(sql: str, place: Place) -> None:
    """Raise ``InvalidInput`` for what a view's own query may not contain. Missing tables may be created later."""
    _, references = _read(sql, place)
    for reference in references:
        with suppress(NoSuchTable):
            _found(reference, place)


def _read(sql: str, place: Place) -> tuple[QueryText, list[Reference]]:
    sql, shape = _checked(_bounded(sql), place)
    read = QueryText.of(Query(sql, Span(0, len(sql))))
    _, references = read.parsed()
    if shape is not None and {(table.start, table.end) for table in shape.tables} != {
        (reference.span.start, reference.span.end) for reference in references
    }:
        raise InvalidInput(
            "it can be read in two ways; write names that are words of SQL in backticks, "
            "or connect with trusted_views=True"
        )
    return read, references


def _checked(sql: str, place: Place) -> tuple[str, Shape | None]:
    """Return the query to run, and what it reads and calls. If the reader trusts every view, nothing is changed."""
    trust = place.names.trust()
    if trust.everything:
        return sql, None
    text = without_comments(sql)
    shape = read_shape(text, trust)
    place.names.spark.check_view(text, shape)
    return text, shape


def _replace(edits: Edits, read: QueryText, reference: Reference, new: str | None) -> None:
    if new is None:
        return
    start = reference.span.start
    if start in read.bare and new.startswith("("):  # TABLE v is a query by itself, and so is a query in parentheses
        edits.replace(read.bare[start], reference.span.end, new)
        return
    end = read.end_of(reference)
    if new.startswith("(") and edits.behind_sample(end) != end:
        # sqlglot accepts no alias after the sample of a query, as Spark does. So the sample goes inside.
        edits.replace(start, reference.span.end, f"(SELECT * FROM {new}")
        edits.add_alias(reference, end, before=")")
    else:
        edits.replace(start, reference.span.end, new)
        if start not in read.bare:
            edits.add_alias(reference, end)
    if reference.alias is None:
        edits.shorten_columns(reference)


def _meant(reference: Reference, place: Place) -> str | None:
    """Return the text for a name in a view's query. Returns None if it is Spark's own and stays unchanged."""
    found = _found(reference, place)
    return view_text(found, place.names, place.trail) if isinstance(found, View) else found


def _found(reference: Reference, place: Place) -> View | str | None:
    own = place.names.lake_name()
    parts = reference.parts
    if len(parts) > 2 and own is not None and parts[0] == own:
        parts = parts[1:]
    elif place.catalog is not None and place.catalog != own:
        return _elsewhere(parts, place)
    found = place.names.find(parts)
    if found is not None:
        return _table_text(found, parts)
    view = place.names.find_view(parts)
    if view is not None:
        return view
    if len(parts) == 1:
        raise _missing(parts[0], place)
    if parts[0].lower() == "global_temp":
        raise _temporary(".".join(parts))
    if place.names.is_missing_from_lake(parts):
        place.names.lake.table(".".join(parts))  # raises with similar names
    _check_trusted(parts, place)
    return None


def _missing(name: str, place: Place) -> InvalidInput | NoSuchTable:
    if place.names.session_has(name):
        return _temporary(name)
    full = ".".join((*place.names.current, name))
    return NoSuchTable(f"there is no table or view {full}", table=full)


def _temporary(name: str) -> InvalidInput:
    return InvalidInput(f"{name} is a temporary view, which a stored view cannot read")


def _elsewhere(parts: tuple[str, ...], place: Place) -> str:
    if place.catalog is None or place.catalog.lower() != SPARK_CATALOG:
        raise Unsupported(
            f"cannot read view {place.trail[-1]}: its names are those of the catalog {place.catalog}, not of this one",
            feature=f"views over the catalog {place.catalog}",
        )
    whole = (*place.names.current, *parts) if len(parts) == 1 else parts
    full = whole if whole[0].lower() == SPARK_CATALOG else (SPARK_CATALOG, *whole)
    _check_trusted(full, place)
    return _quoted(full)


def _check_trusted(parts: tuple[str, ...], place: Place) -> None:
    """Raise ``InvalidInput`` for a name that may be a table of the session, or a file by its path, unless it is
    trusted."""
    name = ".".join(parts)
    if not place.names.trust().allows(name):
        raise InvalidInput(
            f"it reads {name}, which is no table or view of the lake; "
            f"connect with trusted_views=[{name.lower()!r}] to allow it",
            table=name,
        )


def _table_text(found: Found, parts: tuple[str, ...]) -> str:
    name = TableName.parse(found.table.name)
    is_part = (found.metadata_table, found.snapshot_id, found.ref, found.as_of_ms) != (None, None, None, None)
    return _quoted((*name.namespace, name.name, *(parts[-1:] if is_part else ())))


def _under_its_columns(view: View, body: str) -> str:
    """Return the body with a line end after it, which closes a comment at the end."""
    names = [field.name for field in view.schema.fields]
    if any(SUBSTITUTED in name for name in (view.name, *names, *view.query_columns)):
        raise InvalidInput(
            f"cannot read view {view.name}: {SUBSTITUTED} in a name would become a setting of the session"
        )
    alias = quoted_word(TableName.parse(view.name).name)
    if not names:  # a version by another engine that does not record its columns
        return f"(SELECT * FROM (\n{body}\n) AS {alias})"
    if not view.query_columns:
        return f"(SELECT * FROM (\n{body}\n) AS {alias}({', '.join(map(quoted_word, names))}))"
    columns = (
        quoted_word(own) if own == name else f"{quoted_word(own)} AS {quoted_word(name)}"
        for own, name in zip(view.query_columns, names, strict=True)
    )
    return f"(SELECT {', '.join(columns)} FROM (\n{body}\n) AS {alias})"


def _quoted(parts: tuple[str, ...]) -> str:
    return ".".join(map(quoted_word, parts))


def _bounded(text: str) -> str:
    if len(text) > LONGEST:
        raise InvalidInput(f"cannot read the query: with the queries of its views it has over {LONGEST:,} characters")
    return text
