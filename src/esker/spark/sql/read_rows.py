"""INSERT, DELETE and TRUNCATE."""

from __future__ import annotations

from esker.spark.sql.read_create import QUERY_WORDS, query_behind
from esker.spark.sql.statements import Delete, Insert
from esker.spark.sql.territory import Elsewhere, Territory
from esker.spark.sql.words import Span, Words


def read_insert(words: Words, territory: Territory, *, before: str = "") -> Insert:
    """Behind INSERT. ``before`` is the text of CTEs that stand before it and belong to its query."""
    evolves = words.take("with", "schema", "evolution")
    overwrite = words.take("overwrite")
    if not overwrite:
        words.expect("into")
    if words.at("local") or words.at("directory"):
        raise Elsewhere
    words.take("table")
    table = territory.table(words.name("the name of a table"))
    partition = _partition(words) if words.take("partition") else {}
    if words.at("if", "not", "exists"):
        raise words.unsupported("INSERT … IF NOT EXISTS")
    by_name = words.take("by", "name")
    replace_where = None
    if not overwrite and words.take("replace", "where"):
        replace_where = words.in_place(_condition(words))
    columns = _columns(words) if not by_name and replace_where is None else None
    words.take("as")
    return Insert(
        table=table,
        query=query_behind(words, before=before),
        overwrite=overwrite,
        columns=columns,
        by_name=by_name,
        partition=partition,
        replace_where=replace_where,
        evolves=evolves,
    )


def read_delete(words: Words, territory: Territory, *, before: str = "") -> Delete:
    """Behind DELETE. ``before`` is the text of CTEs that stand before it; subqueries of its condition may name them."""
    words.expect("from")
    table = territory.table(words.name("the name of a table"))
    explicit = words.take("as")
    alias = words.word("an alias") if explicit or not (words.is_over or words.at("where")) else None
    if words.is_over:
        return Delete(table=table, alias=alias, where=None)
    words.expect("where")
    return Delete(table=table, alias=alias, where=words.in_place(words.rest()), ctes=before)


def read_truncate(words: Words, territory: Territory) -> Delete:
    """Behind TRUNCATE: every row of the table or of a partition, by metadata alone."""
    words.expect("table")
    table = territory.table(words.name("the name of a table"))
    partition = None
    if words.take("partition"):
        partition = {}
        place = words.place
        for key, value in _partition(words).items():
            if value is None:
                raise words.unsupported("TRUNCATE … PARTITION without a value", f"give {key} one", place=place)
            partition[key] = value
    words.expect_end()
    return Delete(table=table, alias=None, where=None, partition=partition)


def _partition(words: Words) -> dict[str, str | None]:
    """``(day = '2026-01-01', region)``: text of constants, None where the query gives the value."""
    found: dict[str, str | None] = {}
    words.expect_sign("(")
    while True:
        key = str(words.name("a partition column"))
        found[key] = words.text_of(words.until()) if words.take_sign("=") else None
        if not words.take_sign(","):
            break
    words.expect_sign(")")
    return found


def _columns(words: Words) -> tuple[str, ...] | None:
    """A list of columns, unless the parenthesis opens a query."""
    opening, first, second = words.peek(), words.peek(1), words.peek(2)
    if opening is None or not (opening.is_sign and opening.text == "("):
        return None
    listed = second is not None and second.is_sign and second.text in (",", ")", ".")
    if first is None or (not listed and (first.word in QUERY_WORDS or first.is_sign)):
        return None
    words.expect_sign("(")
    found = [str(words.name("a column"))]
    while words.take_sign(","):
        found.append(str(words.name("a column")))
    words.expect_sign(")")
    return tuple(found)


def _condition(words: Words) -> Span:
    """Up to the query, which begins with a word of its own outside all parentheses."""
    start, end, depth = words.next("a condition"), 0, 0
    words.tokens.at -= 1
    while (token := words.peek()) is not None:
        if depth == 0 and token.word in QUERY_WORDS:
            return Span(start.start, end)
        if token.is_sign and token.text in ("(", ")"):
            depth += 1 if token.text == "(" else -1
        end = words.next().end + 1
    raise words.refuse("expected a query behind the condition")
