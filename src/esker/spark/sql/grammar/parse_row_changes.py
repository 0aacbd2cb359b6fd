"""Step *parse* of a row change: INSERT, DELETE, TRUNCATE, UPDATE and MERGE. No name is resolved here."""

from __future__ import annotations

from esker.spark.sql.grammar.parse_definitions import QUERY_WORDS, query_behind
from esker.spark.sql.grammar.statements import Delete, Insert, Merge, MergeClause, MergeSource, Query, Stretch, Update
from esker.spark.sql.grammar.words import Elsewhere, Span, Territory, Words, blanked

# ---------------------------------------------------------------- INSERT, DELETE and TRUNCATE


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


# ---------------------------------------------------------------- read changes
#
# UPDATE and MERGE, read to the end before anything is looked up.


_CLAUSE = ("update", "delete", "insert")


def read_update(words: Words, territory: Territory, *, before: str = "") -> Update:
    """Behind UPDATE. ``before`` is the text of CTEs that stand before it; subqueries of it may name them."""
    table = territory.table(words.name("the name of a table"))
    alias = _alias(words, "set")
    words.expect("set")
    values = _assignments(words, "where")
    where = None
    if words.take("where"):
        where = _stretch(words)
    words.expect_end()
    return Update(table=table, alias=alias, values=values, where=where, ctes=before)


def read_merge(words: Words, territory: Territory, *, before: str = "") -> Merge:
    """Behind MERGE. ``before`` is the text of CTEs that stand before it; its source and subqueries may name them."""
    evolves = words.take("with", "schema", "evolution")
    words.expect("into")
    table = territory.table(words.name("the name of a table"))
    alias = _alias(words, "using")
    source = _source(words, before)
    words.expect("on")
    on = _stretch(words, "when")
    clauses = []
    while not words.is_over:
        clauses.append(_clause(words))
    if not clauses:
        raise words.refuse("expected WHEN")
    return Merge(
        table=table,
        alias=alias,
        source=source,
        on=on,
        clauses=tuple(clauses),
        ctes=before,
        evolves=evolves,
    )


def _alias(words: Words, behind: str) -> str | None:
    explicit = words.take("as")
    return words.word("an alias") if explicit or not words.at(behind) else None


def _source(words: Words, before: str) -> MergeSource:
    """``USING t AS s``, or ``USING (SELECT …) s``. Blanks keep every place of the text what it is."""
    using = words.peek()
    words.expect("using")
    assert using is not None
    opening = words.peek()
    if opening is not None and opening.is_sign and opening.text == "(":
        span = words.parenthesised()
        text = before + words.in_place(span)[len(before) :]
        return MergeSource(Query(text, Span(0 if before else span.start, span.end)), _alias(words, "on"), None)
    name = words.name("the name of a table, or a query in parentheses")
    if any(map(words.at, ("version", "timestamp", "for"))):
        raise words.unsupported("a version of a table behind USING", "write USING (SELECT * FROM … VERSION AS OF …)")
    verb = "SELECT * FROM" if before else "TABLE"  # MERGE INTO and USING leave room for either
    head = before + blanked(words.text[len(before) : using.end + 1])
    text = head[: -len(verb)] + verb + words.text[using.end + 1 : name.span.end]
    query = Query(text, Span(0 if before else using.start, name.span.end))
    return MergeSource(query, _alias(words, "on"), name.parts[-1])


def _clause(words: Words) -> MergeClause:
    place = words.place
    words.expect("when")
    matched = not words.take("not")
    words.expect("matched")
    by_source = False
    if not matched and words.take("by"):
        by_source = words.take("source")
        if not by_source:
            words.expect("target")
    condition = _stretch(words, "then") if words.take("and") else None
    words.expect("then")
    kind = words.take_any(*_CLAUSE)
    inserts = not matched and not by_source
    if kind is None or inserts != (kind == "insert"):
        raise words.refuse("expected INSERT" if inserts else "expected UPDATE or DELETE")
    values = None
    if kind == "update":
        words.expect("set")
        values = None if words.take_sign("*") else _assignments(words, "when")
        if values is None and by_source:
            raise words.refuse("a row that no row of the source matches cannot be set to *, expected a column")
    elif kind == "insert" and not words.take_sign("*"):
        values = _inserted(words)
    return MergeClause(matched=matched, by_source=by_source, condition=condition, kind=kind, values=values, place=place)


def _inserted(words: Words) -> tuple[tuple[str, Stretch], ...]:
    words.expect_sign("(")
    names = [str(words.name("a column"))]
    while words.take_sign(","):
        names.append(str(words.name("a column")))
    words.expect_sign(")")
    words.expect("values")
    words.expect_sign("(")
    found = [_stretch(words, comma=True)]
    while words.take_sign(","):
        found.append(_stretch(words, comma=True))
    if len(found) != len(names):
        raise words.refuse(f"expected {len(names)} values, one for each column, not {len(found)}: before")
    words.expect_sign(")")
    return tuple(zip(names, found, strict=True))


def _assignments(words: Words, *stops: str) -> tuple[tuple[str, Stretch], ...]:
    found = []
    while True:
        name = str(words.name("a column"))
        words.expect_sign("=")
        found.append((name, _stretch(words, *stops, comma=True)))
        if not words.take_sign(","):
            return tuple(found)


def _stretch(words: Words, *stops: str, comma: bool = False) -> Stretch:
    """An expression, up to one of these words outside of brackets and of CASE … END."""
    first = words.next("an expression")
    words.tokens.at -= 1
    start, end, depth, cases = first.start, first.start, 0, 0
    while (token := words.peek()) is not None:
        if depth == 0 and cases == 0 and token.word in stops:
            break
        if token.is_sign:
            if depth == 0 and (token.text in (")", "]") or (comma and token.text == ",")):
                break
            depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        cases += (token.word == "case") - (token.word == "end" and cases > 0)
        end = words.next().end + 1
    if end == start:
        raise words.refuse("expected an expression")
    return Stretch(words.text, Span(start, end), first.place)
