"""Parses SHOW, DESCRIBE, USE, REFRESH, CACHE and UNCACHE."""

from __future__ import annotations

from esker.spark.sql.grammar.parse_definitions import NAMESPACE_WORDS, query_behind, read_show_views
from esker.spark.sql.grammar.statements import (
    CacheTable,
    DescribeNamespace,
    DescribeTable,
    RefreshTable,
    ShowColumns,
    ShowCreateTable,
    ShowCurrentNamespace,
    ShowNamespaces,
    ShowPartitions,
    ShowProperties,
    ShowTables,
    Statement,
    UncacheTable,
    UseNamespace,
)
from esker.spark.sql.grammar.words import Elsewhere, Named, Territory, Words

_NAMESPACES = tuple(f"{word}s" for word in NAMESPACE_WORDS)


def read_show(words: Words, territory: Territory) -> Statement:
    """Parse the rest of SHOW."""
    if words.take_any(*_NAMESPACES):
        inside = _inside(words, territory)
        return _ended(words, ShowNamespaces(inside, _like(words)))
    if words.take("current"):
        if words.take_any(*NAMESPACE_WORDS) is None:
            raise Elsewhere
        return _ended(words, ShowCurrentNamespace())
    if words.take("tables"):
        inside = _inside(words, territory)
        return _ended(words, ShowTables(inside, _like(words)))
    if words.take("views"):
        return read_show_views(words, territory)
    if words.take("create", "table"):
        return _ended(words, ShowCreateTable(_table(words, territory)))
    if words.take("tblproperties"):
        table = _table(words, territory)
        key = None
        if words.take_sign("("):
            key = words.property_key()
            words.expect_sign(")")
        return _ended(words, ShowProperties(table, key))
    if words.take("columns"):
        if words.take_any("in", "from") is None:
            raise words.refuse("expected IN and a table")
        table = words.name("the name of a table")
        if words.take_any("in", "from") is not None:
            namespace = words.name("the name of a namespace")
            table = Named((*namespace.parts, *table.parts), table.span, table.place)
        return _ended(words, ShowColumns(territory.table(table)))
    if words.take("partitions"):
        table = _table(words, territory)
        if words.at("partition"):
            raise words.unsupported("SHOW PARTITIONS … PARTITION", f"select from {table}.partitions")
        return _ended(words, ShowPartitions(table))
    raise Elsewhere


def read_describe(words: Words, territory: Territory) -> Statement:
    """Parse the rest of DESCRIBE, if no query follows."""
    if words.at("function"):
        raise Elsewhere
    if words.take_any(*NAMESPACE_WORDS):
        extended = words.take("extended")
        return _ended(words, DescribeNamespace(territory.namespace(words.name("the name of a namespace")), extended))
    words.take("table")
    extended = words.take_any("extended", "formatted") is not None
    table = _table(words, territory)
    if words.at("partition") or words.at("as"):
        raise words.refuse("expected a column, or nothing")
    column = None if words.is_over else str(words.name("a column"))
    return _ended(words, DescribeTable(table, extended, column))


def read_use(words: Words, territory: Territory) -> UseNamespace:
    """Parse the rest of USE."""
    if words.at("catalog") and words.peek(1) is not None:
        raise Elsewhere
    words.take_any(*NAMESPACE_WORDS)
    found = UseNamespace(territory.namespace(words.name("the name of a namespace")))
    words.expect_end()
    return found


def read_refresh(words: Words, territory: Territory) -> RefreshTable:
    """Parse the rest of REFRESH."""
    if not words.take("table"):
        raise Elsewhere
    found = RefreshTable(_table(words, territory))
    words.expect_end()
    return found


def read_cache(words: Words, territory: Territory) -> CacheTable:
    """Parse the rest of CACHE."""
    lazy = words.take("lazy")
    words.expect("table")
    name = words.name("the name of a table")
    level = None
    if words.take("options"):
        options = {key.lower(): value for key, value in words.properties().items()}
        level = options.get("storagelevel")
    if words.is_over:
        return CacheTable(name=territory.table(name), lazy=lazy, level=level)
    words.take("as")
    return CacheTable(name=name, lazy=lazy, level=level, query=query_behind(words))


def read_uncache(words: Words, territory: Territory) -> UncacheTable:
    """Parse the rest of UNCACHE."""
    words.expect("table")
    if_there = words.take("if", "exists")
    found = UncacheTable(name=_table(words, territory), if_there=if_there)
    words.expect_end()
    return found


def _table(words: Words, territory: Territory) -> Named:
    return territory.table(words.name("the name of a table"))


def _inside(words: Words, territory: Territory) -> Named | None:
    if words.take_any("in", "from") is None:
        return None
    return territory.namespace(words.name("the name of a namespace"))


def _like(words: Words) -> str | None:
    words.take("like")
    return None if words.is_over else words.string("a pattern")


def _ended(words: Words, found: Statement) -> Statement:
    words.expect_end()
    return found
