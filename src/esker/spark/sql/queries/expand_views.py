"""Views of the lake in a query, each replaced by its own query in parentheses.

The names in a view's query are looked for where its version says, so they become full names before the text moves;
what is left names tables alone, and is pruned like any other query. The columns are called as the view calls them.
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
LONGEST = 1 << 20  # views that each read another twice double the text with every one
SPARK_CATALOG = "spark_catalog"


@dataclass(frozen=True, slots=True)
class Place:
    """Where names of a view's query are looked for, and the views that lead there."""

    names: LakeNames  # with the version's namespace as the current one
    catalog: str | None  # the version's own, where it says one
    trail: tuple[str, ...]


def with_views(query: Query, read: QueryText, views: dict[Reference, View], names: LakeNames) -> Query:
    """The query with these references made queries. Of a view there is no older version to read."""
    edits = Edits(read.words)
    for reference, view in views.items():
        if reference.span.end in read.travels:
            raise InvalidInput(f"cannot read {view.name} as of a version or a time: a view has no snapshots")
        _replace(edits, read, reference, view_text(view, names, ()))
    text = _bounded(edits.done())
    return Query(text, Span(query.body.start, len(text) - (len(query.text) - query.body.end)))


def view_text(view: View, names: LakeNames, trail: tuple[str, ...]) -> str:
    """The view's query under the view's columns, in parentheses."""
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
            f"cannot read view {view.name}: its query is there in {known}, not in Spark's dialect; "
            "CREATE OR REPLACE VIEW gives it one",
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
    """A view's query with every table of the lake by its full name, and every view by its query.

    ``InvalidInput`` names what is in it that a view may not contain.
    """
    read, references = _read(sql, place)
    edits = Edits(read.words)
    for reference in references:
        _replace(edits, read, reference, _meant(reference, place))
    return _bounded(edits.done())


def check_text(sql: str, place: Place) -> None:
    """Refuse what a view's own query may not contain; tables that are not there may be made later."""
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
    """The query as it is to run, and what it reads and calls; all of it as it is where the reader trusts every view."""
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
    if start in read.bare and new.startswith("("):  # TABLE v is a query by itself, and so is one in parentheses
        edits.replace(read.bare[start], reference.span.end, new)
        return
    end = read.end_of(reference)
    if new.startswith("(") and edits.behind_sample(end) != end:
        # sqlglot reads no alias behind the sample of a query, where Spark has it: so the sample goes inside
        edits.replace(start, reference.span.end, f"(SELECT * FROM {new}")
        edits.add_alias(reference, end, before=")")
    else:
        edits.replace(start, reference.span.end, new)
        if start not in read.bare:
            edits.add_alias(reference, end)
    if reference.alias is None:
        edits.shorten_columns(reference)


def _meant(reference: Reference, place: Place) -> str | None:
    """What a name of a view's query means, as text; None where it is Spark's own and stays as it is."""
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
        place.names.lake.table(".".join(parts))  # raises, and says what there is
    _check_trusted(parts, place)
    return None


def _missing(name: str, place: Place) -> InvalidInput | NoSuchTable:
    if place.names.session_has(name):
        return _temporary(name)
    full = ".".join((*place.names.current, name))
    return NoSuchTable(f"there is no table or view {full}", table=full)


def _temporary(name: str) -> InvalidInput:
    return InvalidInput(f"{name} is a temporary view, and a view that lasts cannot read what does not")


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
    """What is Spark's own may be a table of the session, or any file by its path."""
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
    """The line's end closes a comment at the query's end."""
    names = [field.name for field in view.schema.fields]
    if any(SUBSTITUTED in name for name in (view.name, *names, *view.query_columns)):
        raise InvalidInput(
            f"cannot read view {view.name}: {SUBSTITUTED} in a name would become a setting of the session"
        )
    alias = quoted_word(TableName.parse(view.name).name)
    if not names:  # a version of somebody's that says nothing of its columns
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
