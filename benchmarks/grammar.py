"""Esker's grammar for statements beside sqlglot's parser: ``python -m benchmarks.grammar``.

The statements are the texts in the tests that Esker's grammar reads as one: no queries. The figures are those of
``docs/decisions/0022-own-grammar-for-statements.md``.
"""

from __future__ import annotations

import ast
import logging
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from esker.errors import EskerError
from esker.spark.sql.grammar.parse_statement import read_statement
from esker.spark.sql.grammar.statements import Delete, Foreign, Insert, Merge, Query, Statement, Update
from esker.spark.sql.grammar.words import Named, Words

TESTS = Path(__file__).parents[1] / "tests"
_LONGEST = 5_000  # characters: some tests make statements of thousands of columns
_ROUNDS = 5


class Anywhere:
    """Every table and namespace is the lake's."""

    def table(self, name: Named) -> Named:
        """The name."""
        return name

    namespace = new = table

    def holds(self, parts: tuple[str, ...]) -> bool:
        """Whether a name in a query is a lake's."""
        return len(parts) > 1

    def is_called(self, parts: tuple[str, ...]) -> bool:
        """Whether a procedure is the lake's."""
        return parts[0] == "lake"


def statements() -> Iterator[tuple[str, Statement]]:
    """Each text once, with what Esker's grammar makes of it."""
    seen = set[str]()
    for path in sorted(TESTS.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in parts else None
            if not isinstance(text, str) or text in seen or len(text.split()) < 3 or len(text) > _LONGEST:
                continue
            seen.add(text)
            found = _read(text)
            if found is not None and not isinstance(found, Query | Foreign):
                yield text, found


def _read(text: str) -> Statement | None:
    try:
        return read_statement(text, Anywhere())  # type: ignore[arg-type]
    except (EskerError, ValueError):
        return None


def _parsed(text: str) -> list[exp.Expression]:
    found = sqlglot.parse(text, read="spark", error_level=ErrorLevel.IMMEDIATE)
    return [tree for tree in found if isinstance(tree, exp.Expression)]


def verdict(text: str) -> str:
    """What sqlglot makes of a statement: a tree, a ``Command`` with the raw text, or an error."""
    try:
        trees = _parsed(text)
    except (SqlglotError, RecursionError):
        return "errors"
    if len(trees) != 1 or any(isinstance(node, exp.Command) for node in trees[0].walk()):
        return "a Command"
    return "read" if _same_tokens(text, trees[0].sql(dialect="spark")) else "read, other tokens as text"


def _same_tokens(one: str, other: str) -> bool:
    def tokens(text: str) -> list[str]:
        return [token.text.lower() for token in sqlglot.tokenize(text, read="spark") if token.text != ";"]

    return tokens(one) == tokens(other)


def _cpu_ms(read: Callable[[str], object], texts: list[str]) -> float:
    """The median over the texts of the best of some rounds."""
    best = dict.fromkeys(texts, float("inf"))
    for _ in range(_ROUNDS):
        for text in texts:
            start = time.process_time()
            read(text)
            best[text] = min(best[text], time.process_time() - start)
    return statistics.median(best.values()) * 1000


def main() -> int:
    """Print the figures."""
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    found = list(statements())
    print(f"sqlglot {sqlglot.__version__}")
    for label, chosen in (
        ("statements", found),
        (
            "INSERT, UPDATE, DELETE, MERGE",
            [pair for pair in found if isinstance(pair[1], Insert | Update | Delete | Merge)],
        ),
    ):
        counts = Counter(verdict(text) for text, _ in chosen)
        print(f"{label}: {len(chosen)}; sqlglot: {', '.join(f'{n} {kind}' for kind, n in counts.most_common())}")
    merges = [text for text, said in found if isinstance(said, Merge) and verdict(text).startswith("read")]
    for label, read in (("sqlglot", _parsed), ("Esker's grammar", _read), ("tokens alone", Words)):
        print(f"one MERGE of {len(merges)}, median of CPU time, {label}: {_cpu_ms(read, merges):.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
