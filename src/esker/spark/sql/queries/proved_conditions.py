"""Conditions of a WHERE that the files to read prove: every row in them passes, so Spark need not check it.

A filter on a partition column is the usual case. Without the condition, Spark does not read the column for it. The
text of a condition is found by its tokens. It is used only if sqlglot, with TRUE in its place, reads the query as
expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from esker.errors import InvalidInput
from esker.model.parsing.tokens import Token
from esker.model.predicates.predicate import Bound, conjuncts
from esker.ports.engine import ScanTask
from esker.spark.sql.grammar.table_references import Node, parse_query
from esker.spark.sql.grammar.words import Span
from esker.spark.sql.queries.prune_conditions import conjunct_nodes
from esker.spark.sql.queries.query_text import QueryText

_BEHIND_WHERE = frozenset(
    """
    group having order sort cluster distribute limit offset window qualify lateral union except minus intersect
    """.split()  # noqa: SIM905
)


def unproved(tasks: Iterable[ScanTask]) -> frozenset[Bound]:
    """Return the conditions that at least one of the files does not prove."""
    residuals = {id(task.residual): task.residual for task in tasks}
    return frozenset(part for residual in residuals.values() for part in conjuncts(residual))


def condition_spans(read: QueryText, tree: Node, conditions: Sequence[Node]) -> list[Span]:
    """Return where these conditions of the tree are in the text. Empty if this is not certain.

    Only the WHERE of a query with a single SELECT is looked at.
    """
    from sqlglot import exp

    where = tree.args.get("where") if isinstance(tree, exp.Select) else None
    if where is None or len(list(tree.find_all(exp.Select))) != 1:
        return []
    nodes = list(conjunct_nodes(where.this))
    spans = _spans(read.words.tokens.tokens)
    if len(spans) != len(nodes):
        return []
    chosen = [at for at, node in enumerate(nodes) if any(node is one for one in conditions)]
    found = [spans[at] for at in chosen]
    return found if _reads_as_expected(read, tree, chosen, found) else []


def _spans(tokens: Sequence[Token]) -> list[Span]:
    """Return the parts of the only WHERE, between the ANDs that are in no parentheses. Empty if there are several."""
    starts = [at for at, token in enumerate(tokens) if token.word == "where"]
    if len(starts) != 1:
        return []
    spans, first, depth, between = list[Span](), starts[0] + 1, 0, 0
    end = len(tokens)
    for at in range(first, len(tokens)):
        token = tokens[at]
        if token.is_sign and token.text in ("(", "["):
            depth += 1
        elif token.is_sign and token.text in (")", "]"):
            depth -= 1
        elif depth:
            continue
        elif token.word == "case":  # its WHEN may have any words
            return []
        elif token.word == "between":
            between += 1
        elif token.word == "and" and between:
            between -= 1
        elif token.word == "and":
            spans.append(Span(tokens[first].start, tokens[at - 1].end + 1))
            first = at + 1
        elif token.word in _BEHIND_WHERE or (token.is_sign and token.text == ";"):
            end = at
        if depth < 0 or end <= at:
            end = at
            break
    if first >= end:
        return []
    return [*spans, Span(tokens[first].start, tokens[end - 1].end + 1)]


def _reads_as_expected(read: QueryText, tree: Node, chosen: Sequence[int], spans: Sequence[Span]) -> bool:
    """Return whether sqlglot reads the text with TRUE in these places as the tree with TRUE for these conditions."""
    from sqlglot import exp

    text = read.readable
    for span in reversed(spans):
        text = text[: span.start] + "TRUE" + text[span.end :]
    expected = tree.copy()
    nodes = list(conjunct_nodes(expected.args["where"].this))
    for at in chosen:
        nodes[at].replace(exp.true())
    try:
        return bool(parse_query(text) == expected)
    except InvalidInput:
        return False
