"""CREATE and DROP, of namespaces, tables and views."""

from __future__ import annotations

from dataclasses import replace

from esker.model.token_stream import Token
from esker.spark.sql.read_namespace import NAMESPACE_WORDS
from esker.spark.sql.read_views import read_create_view, read_drop_view
from esker.spark.sql.statements import (
    CreateLakeView,
    CreateNamespace,
    CreateTable,
    CreateView,
    DropNamespace,
    DropTable,
    DropView,
    Query,
)
from esker.spark.sql.territory import Elsewhere, Territory
from esker.spark.sql.words import Named, Span, Words, blanked

QUERY_WORDS = ("select", "with", "values", "from", "table", "map", "reduce")
PROVIDERS = ("iceberg", "esker")
_DATA_FORMAT = "parquet"  # of the data files that are written


def read_create(words: Words, territory: Territory) -> CreateNamespace | CreateTable | CreateView | CreateLakeView:
    """Behind CREATE."""
    replaces = words.take("or", "replace")
    if not replaces and words.take_any(*NAMESPACE_WORDS):
        return _namespace(words, territory)
    is_global = words.take("global")
    if words.take_any("temp", "temporary") and words.take("view"):
        return _view(words, replaces=replaces, is_global=is_global)
    if not is_global and words.take("view"):
        return read_create_view(words, territory, replaces=replaces)
    words.take("external")
    if not words.take("table"):
        raise Elsewhere
    return replace(_table(words, territory), replaces=replaces)


def read_replace(words: Words, territory: Territory) -> CreateTable:
    """Behind REPLACE."""
    if not words.take("table"):
        raise Elsewhere
    return replace(_table(words, territory), replaces=True, must_be_there=True)


def read_drop(words: Words, territory: Territory) -> DropNamespace | DropTable | DropView:
    """Behind DROP."""
    if words.take_any(*NAMESPACE_WORDS):
        if_there = words.take("if", "exists")
        name = territory.namespace(words.name("the name of a namespace"))
        words.take_any("restrict", "cascade")  # a namespace that holds tables stays, as Iceberg's catalogs have it
        words.expect_end()
        return DropNamespace(name=name, if_there=if_there)
    if words.take("view"):
        return read_drop_view(words, territory)
    if not words.take("table"):
        raise Elsewhere
    if_there = words.take("if", "exists")
    name = territory.table(words.name("the name of a table"))
    purge = words.take("purge")
    words.expect_end()
    return DropTable(name=name, if_there=if_there, purge=purge)


def _namespace(words: Words, territory: Territory) -> CreateNamespace:
    unless_there = words.take("if", "not", "exists")
    name = territory.new(words.name("the name of a namespace"))
    properties: dict[str, str] = {}
    while not words.is_over:
        if words.take("comment"):
            properties["comment"] = words.string("the comment")
        elif words.take("location"):
            properties["location"] = words.string("the location")
        elif words.take("with") and words.take_any("properties", "dbproperties"):
            properties |= words.properties()
        else:
            raise words.refuse("expected COMMENT, LOCATION or WITH PROPERTIES")
    return CreateNamespace(name=name, unless_there=unless_there, properties=properties)


def _view(words: Words, *, replaces: bool, is_global: bool) -> CreateView:
    if words.take("if", "not", "exists"):
        raise Elsewhere
    name = words.name("the name of a view")
    columns: tuple[str, ...] = ()
    if (token := words.peek()) is not None and token.is_sign and token.text == "(":
        columns = tuple(Words(term).word("a column") for term in words.terms(words.parenthesised()))
    while not words.at("as"):
        words.next("AS and a query")
    words.expect("as")
    return CreateView(name=name, columns=columns, replaces=replaces, is_global=is_global, query=query_behind(words))


def _table(words: Words, territory: Territory) -> CreateTable:
    unless_there = words.take("if", "not", "exists")
    name = words.name("the name of a table")
    properties = _of_provider(words, territory, name)
    territory.new(name)
    like = words.name("the name of a table") if words.take("like") else None
    columns = None
    if like is None and (token := words.peek()) is not None and token.is_sign and token.text == "(":
        columns = words.in_place(words.parenthesised())
    partition_by: tuple[str, ...] = ()
    location: str | None = None
    while not words.is_over and not (like is None and _at_query(words)):
        if words.take("using"):
            words.word("iceberg")
        elif like is None and words.take("partitioned", "by"):
            partition_by += words.terms(words.parenthesised())
        elif words.take("tblproperties"):
            properties |= words.properties()
        elif like is None and words.take("options"):
            properties |= _options(words.properties())
        elif words.take("location"):
            location = words.string("the location")
        elif like is None and words.take("comment"):
            properties["comment"] = words.string("the comment")
        elif like is not None:
            raise words.refuse("expected USING, TBLPROPERTIES or LOCATION")
        else:
            raise words.refuse("expected PARTITIONED BY, TBLPROPERTIES, OPTIONS, LOCATION, COMMENT or AS and a query")
    query = None if words.is_over else _query_of_table(words, columns)
    if query is None and columns is None and like is None:
        raise words.refuse("expected the columns, or AS and a query")
    return CreateTable(
        name=name,
        unless_there=unless_there,
        columns=columns,
        partition_by=partition_by,
        properties=properties,
        location=location,
        query=query,
        like=like,
    )


def _options(options: dict[str, str]) -> dict[str, str]:
    """OPTIONS as Spark hands them to a catalog: each is a property, and again with the prefix ``option.``."""
    return options | {f"option.{key}": value for key, value in options.items()}


def _query_of_table(words: Words, columns: str | None) -> Query:
    if columns is not None:
        raise words.refuse("a table made from a query takes its columns from the query; did not expect")
    words.take("as")
    return query_behind(words)


def _at_query(words: Words) -> bool:
    token = words.peek()
    return words.at("as") or (
        token is not None and (token.word in QUERY_WORDS or (token.is_sign and token.text == "("))
    )


def _of_provider(words: Words, territory: Territory, name: Named) -> dict[str, str]:
    """The properties that USING sets. Another format makes a table of Spark's own, unless the lake's own name is before
    the table's: there it is the format of the data files."""
    provider = _provider(words)
    if provider is None or provider.text.lower() in PROVIDERS:
        return {}
    if not territory.is_called(name.parts):
        raise Elsewhere
    if provider.text.lower() != _DATA_FORMAT:
        raise words.unsupported(
            f"USING {provider.text}",
            f"tables of the lake are made USING {' or '.join(PROVIDERS)}, with {_DATA_FORMAT} files",
            place=provider.place,
        )
    return {"write.format.default": _DATA_FORMAT}


def _provider(words: Words) -> Token | None:
    """The word behind USING, which is not taken yet."""
    depth = 0
    for ahead in range(len(words.tokens.tokens)):
        token = words.peek(ahead)
        if token is None or (depth == 0 and token.word in ("as", *QUERY_WORDS)):
            return None
        if token.is_sign and token.text in "()":
            depth += 1 if token.text == "(" else -1
        if depth == 0 and token.word == "using":
            return words.peek(ahead + 1)
    return None


def query_behind(words: Words, *, before: str = "") -> Query:
    """The rest as a query; what is before it becomes blanks, but for CTEs that stood there."""
    span = words.rest()
    head = before + blanked(words.text[len(before) : span.start])
    return Query(head + words.text_of(span), Span(0 if before else span.start, span.end))


__all__ = ["NAMESPACE_WORDS", "QUERY_WORDS", "Named", "query_behind", "read_create", "read_drop", "read_replace"]
