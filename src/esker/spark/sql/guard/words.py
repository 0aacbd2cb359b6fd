"""The words of Spark's SQL by the part that they have in a query of a view."""

from __future__ import annotations


def _of(text: str) -> frozenset[str]:
    return frozenset(text.split())


QUERIES = _of("select with values table from")
SET_OPERATIONS = _of("union except minus intersect")
ORDERINGS = _of("order sort cluster distribute")
JOINS = _of("natural inner cross left right full outer semi anti")
TRAVELS = _of("version system_version timestamp system_time")
UNITS = _of("year month week day hour minute second millisecond microsecond")
TYPES = _of("decimal dec numeric varchar char character string binary time timestamp")

OPERATORS = _of("+ - * / % = == != <> < <= > >= <=> >>> || -> => ! ~ & | ^")

CLAUSES = (
    QUERIES
    | SET_OPERATIONS
    | ORDERINGS
    | JOINS
    | _of(
        "where group having qualify window limit offset join on using lateral pivot unpivot tablesample for as by to "
        "set insert update delete merge into create drop alter call execute begin declare describe explain show use "
        "cache and or not in is between like ilike rlike regexp case when then else end null distinct all exists"
    )
)
"""Words that are no names unless they are in backticks."""

WITHIN_EXPRESSIONS = JOINS | _of(
    "and or not in is between like ilike rlike regexp case when then else end null distinct all exists as by for to "
    "set window offset pivot unpivot sort cluster distribute update call show use cache describe explain begin"
)
"""Of these, words that go on with an expression, or are a column's name in one."""

NAMES_BEHIND_AS = WITHIN_EXPRESSIONS - _of("as by")

REFUSED = _of("using insert delete merge into execute declare table")
"""Words that begin what no expression has: ``USING`` gives rows to a program."""

OPENERS = _of(
    "select distinct all where having qualify on by and or not in is between like ilike rlike regexp case when then "
    "else from escape div interval as using values"
)
"""Words behind which an operand follows."""

BEFORE_PARENTHESES = _of(
    "and or not in on when then else case between like ilike rlike regexp any some all exists over filter group by "
    "distinct div escape interval sets within is from where having select values as"
)
"""Words that may have a parenthesis behind them without being a call."""

CLAUSES_OF_CALLS = {"from": _of("extract trim substring substr overlay"), "where": _of("filter")}
