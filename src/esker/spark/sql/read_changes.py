"""UPDATE and MERGE, read to the end before anything is looked up."""

from __future__ import annotations

from esker.spark.sql.statements import Merge, MergeClause, MergeSource, Query, Stretch, Update
from esker.spark.sql.territory import Territory
from esker.spark.sql.words import Span, Words, blanked

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
