"""Parses CREATE and DROP of namespaces, tables and views, ALTER and SHOW of views, ALTER NAMESPACE and COMMENT ON."""

from __future__ import annotations

from dataclasses import replace

from esker.model.parsing.tokens import Token
from esker.model.predicates.predicate_sql import quote_name
from esker.spark.sql.grammar.alter_statements import AlterTable, ChangeColumn, SetProperties, UnsetProperties
from esker.spark.sql.grammar.statements import (
    AlterNamespace,
    AlterView,
    CreateLakeView,
    CreateNamespace,
    CreateTable,
    CreateView,
    DropNamespace,
    DropTable,
    DropView,
    Query,
    RenameView,
    ShowViews,
    ViewColumn,
)
from esker.spark.sql.grammar.words import Elsewhere, Named, Span, Territory, Words, blanked

__all__ = ["NAMESPACE_WORDS", "QUERY_WORDS", "Named", "query_behind", "read_create", "read_drop", "read_replace"]


_QUERY_WORDS = ("select", "with", "values", "from", "table")


def read_create_view(words: Words, territory: Territory, *, replaces: bool) -> CreateLakeView:
    """Parse the rest of CREATE [OR REPLACE] VIEW."""
    place = words.place
    unless_there = words.take("if", "not", "exists")
    name = territory.table(words.name("the name of a view"))
    if replaces and unless_there:
        raise words.unsupported("CREATE OR REPLACE VIEW IF NOT EXISTS", "the two exclude each other", place=place)
    columns: tuple[ViewColumn, ...] = ()
    if (token := words.peek()) is not None and token.is_sign and token.text == "(":
        columns = _columns(words)
    properties: dict[str, str] = {}
    while not words.take("as"):
        if words.take("comment"):
            properties["comment"] = words.string("the comment")
        elif words.take("tblproperties"):
            properties |= words.properties()
        else:
            raise words.refuse("expected COMMENT, TBLPROPERTIES or AS and a query")
    return CreateLakeView(
        name=name,
        sql=_query(words),
        columns=columns,
        properties=properties,
        replaces=replaces,
        unless_there=unless_there,
    )


def read_drop_view(words: Words, territory: Territory) -> DropView:
    """Parse the rest of DROP VIEW."""
    if_there = words.take("if", "exists")
    return DropView(name=_last(words, _view(words, territory)), if_there=if_there)


def read_alter_view(words: Words, territory: Territory) -> AlterView | RenameView | CreateLakeView:
    """Parse the rest of ALTER VIEW."""
    name = _view(words, territory)
    if words.take("rename", "to"):
        return RenameView(name=name, to=_last(words, words.name("the new name")))
    if words.take("as"):
        return CreateLakeView(name=name, sql=_query(words), replaces=True, must_be_there=True)
    if words.take("set", "tblproperties"):
        found = AlterView(name=name, properties=words.properties())
    elif words.take("unset", "tblproperties"):
        if_there = words.take("if", "exists")
        found = AlterView(name=name, removed=_keys(words), if_there=if_there)
    else:
        raise words.refuse("expected SET TBLPROPERTIES, UNSET TBLPROPERTIES, RENAME TO, or AS and a query")
    words.expect_end()
    return found


def read_show_views(words: Words, territory: Territory) -> ShowViews:
    """Parse the rest of SHOW VIEWS."""
    inside = None
    if words.take_any("in", "from") is not None:
        inside = territory.namespace(words.name("the name of a namespace"))
    words.take("like")
    found = ShowViews(inside, None if words.is_over else words.string("a pattern"))
    words.expect_end()
    return found


def _columns(words: Words) -> tuple[ViewColumn, ...]:
    found: list[ViewColumn] = []
    for term in words.terms(words.parenthesised()):
        column = Words(term)
        name = column.word("a column")
        doc = column.string("the comment") if column.take("comment") else None
        column.expect_end()
        found.append(ViewColumn(name, doc))
    return tuple(found)


def _query(words: Words) -> str:
    token = words.peek()
    if token is None or not (token.word in _QUERY_WORDS or (token.is_sign and token.text == "(")):
        raise words.refuse("expected a query")
    return words.text_of(words.rest())


def _keys(words: Words) -> tuple[str, ...]:
    words.expect_sign("(")
    found = [_key(words)]
    while words.take_sign(","):
        found.append(_key(words))
    words.expect_sign(")")
    return tuple(found)


def _key(words: Words) -> str:
    return words.property_key()


def _view(words: Words, territory: Territory) -> Named:
    return territory.table(words.name("the name of a view"))


def _last(words: Words, found: Named) -> Named:
    words.expect_end()
    return found


NAMESPACE_WORDS = ("namespace", "database", "schema")
_COMMENT = "comment"


def read_alter_namespace(words: Words, territory: Territory) -> AlterNamespace:
    """Parse the rest of ALTER NAMESPACE."""
    name = territory.namespace(words.name("the name of a namespace"))
    if words.take("set", "location"):
        found = AlterNamespace(name=name, updates={"location": words.string("the location")})
    elif words.take("set") and words.take_any("properties", "dbproperties"):
        found = AlterNamespace(name=name, updates=words.properties())
    elif words.take("unset") and words.take_any("properties", "dbproperties"):
        words.take("if", "exists")
        found = AlterNamespace(name=name, removals=words.property_keys())
    else:
        raise words.refuse("expected SET PROPERTIES, UNSET PROPERTIES or SET LOCATION")
    words.expect_end()
    return found


def read_comment(words: Words, territory: Territory) -> AlterNamespace | AlterTable:
    """Parse the rest of COMMENT. IS NULL removes the comment."""
    words.expect("on")
    if words.take_any(*NAMESPACE_WORDS):
        name = territory.namespace(words.name("the name of a namespace"))
        comment = _comment(words)
        if comment is None:
            return AlterNamespace(name=name, removals=(_COMMENT,))
        return AlterNamespace(name=name, updates={_COMMENT: comment})
    if words.take("table"):
        name = territory.table(words.name("the name of a table"))
        comment = _comment(words)
        change = UnsetProperties((_COMMENT,)) if comment is None else SetProperties({_COMMENT: comment})
        return AlterTable(name, (change,))
    if words.take("column"):
        name, column = _column(words, territory)
        comment = _comment(words)
        return AlterTable(name, (ChangeColumn(name=column, doc=comment, without_doc=comment is None),))
    raise words.refuse("expected NAMESPACE, SCHEMA, DATABASE, TABLE or COLUMN")


def _comment(words: Words) -> str | None:
    words.expect("is")
    found = None if words.take("null") else words.string("the comment, or NULL,")
    words.expect_end()
    return found


def _column(words: Words, territory: Territory) -> tuple[Named, str]:
    """Parse ``sales.orders.address.city``: the shortest name that is a table of the lake, and a column after it."""
    whole = words.name("the name of a column")
    if len(whole.parts) < 2:
        words.tokens.at -= 1
        raise words.refuse("expected a table and its column, with a dot between them")
    ends = [*range(2, len(whole.parts)), 1]
    end = next((at for at in ends if territory.holds(whole.parts[:at])), len(whole.parts) - 1)
    table = territory.table(Named(whole.parts[:end], whole.span, whole.place))
    return table, ".".join(map(quote_name, whole.parts[end:]))


QUERY_WORDS = ("select", "with", "values", "from", "table", "map", "reduce")
PROVIDERS = ("iceberg", "esker")
_DATA_FORMAT = "parquet"  # the format of new data files


def read_create(words: Words, territory: Territory) -> CreateNamespace | CreateTable | CreateView | CreateLakeView:
    """Parse the rest of CREATE."""
    replaces = words.take("or", "replace")
    if not replaces and words.take_any(*NAMESPACE_WORDS):
        return _namespace(words, territory)
    is_global = words.take("global")
    if words.take_any("temp", "temporary") and words.take("view"):
        return _session_view(words, replaces=replaces, is_global=is_global)
    if not is_global and words.take("view"):
        return read_create_view(words, territory, replaces=replaces)
    words.take("external")
    if not words.take("table"):
        raise Elsewhere
    return replace(_table(words, territory), replaces=replaces)


def read_replace(words: Words, territory: Territory) -> CreateTable:
    """Parse the rest of REPLACE."""
    if not words.take("table"):
        raise Elsewhere
    return replace(_table(words, territory), replaces=True, must_be_there=True)


def read_drop(words: Words, territory: Territory) -> DropNamespace | DropTable | DropView:
    """Parse the rest of DROP."""
    if words.take_any(*NAMESPACE_WORDS):
        if_there = words.take("if", "exists")
        name = territory.namespace(words.name("the name of a namespace"))
        words.take_any("restrict", "cascade")  # a namespace that has tables is not dropped, as in Iceberg's catalogs
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


def _session_view(words: Words, *, replaces: bool, is_global: bool) -> CreateView:
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
    """Return OPTIONS as Spark gives them to a catalog: each is a property, and again with the prefix ``option.``."""
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
    """Return the properties that USING sets.

    Another format creates a table in Spark's catalog. If the name starts with the lake's own name, it is the format of
    the data files.
    """
    provider = _provider(words)
    if provider is None or provider.text.lower() in PROVIDERS:
        return {}
    if not territory.is_called(name.parts):
        raise Elsewhere
    if provider.text.lower() != _DATA_FORMAT:
        raise words.unsupported(
            f"USING {provider.text}",
            f"tables of the lake are created USING {' or '.join(PROVIDERS)}, with {_DATA_FORMAT} files",
            place=provider.place,
        )
    return {"write.format.default": _DATA_FORMAT}


def _provider(words: Words) -> Token | None:
    """Return the word after USING, without moving on."""
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
    """Return the rest as a query. The text before it becomes blanks, except CTEs in front of the statement."""
    span = words.rest()
    head = before + blanked(words.text[len(before) : span.start])
    return Query(head + words.text_of(span), Span(0 if before else span.start, span.end))
