"""Step *resolve* of a row change: each expression is analysed by Spark in the scope of its clause, with its type.

An expression that cannot be analysed is refused, with its text and its place; Spark's own message says why. Columns
without a table name are qualified where a clause sees only one side of a merge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from esker.errors import InvalidInput
from esker.model.parsing.column_definitions import columns_from_spark
from esker.model.parsing.tokens import Kind, Token, tokens_of
from esker.model.predicates.predicate_sql import quote_name
from esker.model.types import BooleanType, Type, UnknownType
from esker.ports.row_changes import RowChange, Side, SqlText
from esker.spark.expressions.function_calls import expanded
from esker.spark.expressions.run_template import run_template
from esker.spark.session.spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# ---------------------------------------------------------------- expressions
#
# The expressions of a change, analysed by Spark before a row is read: each in the scope of its clause, with its type.
#
# An expression that cannot be analysed is refused with its text and its place; Spark's own message says why.


TARGET, SOURCE = "esker_target", "esker_source"
_BEHIND = re.compile(r"\s*(SQLSTATE: \w+)?;?( line \d+ pos \d+;?)?\s*$")


def escaped(text: str) -> str:
    """Text for a template, in which braces mean frames."""
    return text.replace("{", "{{").replace("}", "}}")


def named(name: str) -> str:
    """A name for a template."""
    return escaped(quote_name(name))


@contextmanager
def _said_once() -> Iterator[None]:
    """PySpark prints what it raises as well. The logger must be of its own kind, or its next error ends in another."""
    from pyspark.logger import PySparkLogger

    log = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


@dataclass(frozen=True, slots=True)
class Scope:
    """What expressions may name: the frames behind a FROM."""

    session: SparkSession
    change: RowChange
    frames: Mapping[str, Any]
    views: Mapping[str, str] = field(default_factory=dict)  # of the frames that have one

    @contextmanager
    def with_views(self) -> Iterator[Scope]:
        """Yield the scope for several queries: each frame has a temporary view that all of them use.

        On Spark Connect, frames are a part of each query, so there are no views.
        """
        views: dict[str, str] = {}
        try:
            for name, frame in self.frames.items() if not is_connect(self.session) else ():
                view = f"esker_{uuid4().hex}"
                frame.createTempView(view)
                views[name] = view
            yield replace(self, views=views)
        finally:
            for view in views.values():
                self.session.catalog.dropTempView(view)

    def types(self, side: Side, said: Sequence[tuple[str, SqlText]]) -> list[Type]:
        """The type of each expression; ``said`` has what each is, for a refusal."""
        if not said:
            return []
        columns = [f"({piece.text}) AS e{at}" for at, (_, piece) in enumerate(said)]
        try:
            frame = self.query(f"SELECT {', '.join(columns)} FROM {self._sources(side)}")
        except InvalidInput as error:
            if len(said) == 1:
                what, piece = said[0]
                where = f" (at {piece.place})" if piece.place else ""
                raise InvalidInput(
                    f"cannot {self.change.label}: {what}, {piece.shown!r}{where}, is not understood: {error.message}",
                    place=piece.place,
                ) from None
            middle = len(said) // 2  # each query costs time: two of them halve the number of suspects
            for half in (said[:middle], said[middle:]):
                self.types(side, half)
            raise
        return [field.type for field in columns_from_spark(frame.schema)]

    def check_condition(self, side: Side, what: str, said: SqlText) -> None:
        """It must be true or false."""
        (type_,) = self.types(side, [(what, said)])
        if not isinstance(type_, BooleanType | UnknownType):
            where = f" (at {said.place})" if said.place else ""
            raise InvalidInput(
                f"cannot {self.change.label}: {what}, {said.shown!r}{where}, is no condition but a value of type "
                f"{type_}",
                place=said.place,
            )
        if "(" in said.text:
            self._check_deterministic(side, what, said)

    def _check_deterministic(self, side: Side, what: str, said: SqlText) -> None:
        """A condition that can give another answer the next time chooses rows by chance; Spark allows none in joins."""
        where = f" (at {said.place})" if said.place else ""
        try:
            self.query(f"SELECT 1 FROM {self._sources(side)} JOIN (SELECT 1) AS esker_one ON ({said.text})")
        except InvalidInput as error:
            if "NON_DETERMINISTIC" not in error.message:
                return  # something else that a join does not allow, and a condition does
            raise InvalidInput(
                f"cannot {self.change.label}: {what}, {said.shown!r}{where}, does not give the same answer twice; "
                "compute its values in a table or view first",
                place=said.place,
            ) from None

    def query(self, template: str) -> DataFrame:
        """Spark's frame of a query over the frames; ``InvalidInput`` with Spark's message where Spark refuses it."""
        from pyspark.errors import AnalysisException, ParseException

        try:
            with _said_once():
                frames = {**self.change.frames, **self.frames}
                found = run_template(self.session, expanded(template), frames, self.views)
                if is_connect(self.session):
                    found.schema  # noqa: B018  # it looks at a query only when something of it is asked
        except (AnalysisException, ParseException) as error:
            raise InvalidInput(_BEHIND.sub("", str(error).strip().splitlines()[0])) from None
        return found

    def _sources(self, side: Side) -> str:
        target = f"{{{TARGET}}} AS {named(self.change.target_name)}"
        source = f"{{{SOURCE}}} AS {named(self.change.source_name)}"
        if self.change.source is None or side is Side.NOT_MATCHED_BY_SOURCE:
            return target
        return source if side is Side.NOT_MATCHED else f"{target} CROSS JOIN {source}"


# ---------------------------------------------------------------- one side
#
# Columns without a table's name, in a clause that sees one side of a merge alone.


_QUERY = ("select", "with", "values", "from", "table")


def qualified(said: SqlText, side: str, columns: Set[str]) -> SqlText:
    """The expression with the side's name before each of its columns that stands alone.

    The other side may have columns of the same names: in the query that decides, both are there. Subqueries, and names
    that a lambda function binds, stay as they are. ``columns`` are in lower case.
    """
    text = said.text
    tokens = tokens_of(text, "the expression")
    found, done = "", 0
    for at in _standing_alone(tokens, columns):
        behind = tokens[at + 1] if at + 1 < len(tokens) else None
        if tokens[at].text.lower() == side.lower() and behind is not None and behind.text == ".":
            continue  # the side's name itself
        found += text[done : tokens[at].start] + f"{named(side)}."
        done = tokens[at].start
    return SqlText(found + text[done:], said.place)


def _standing_alone(tokens: Sequence[Token], names: Set[str]) -> list[int]:
    """The places of names that may be columns."""
    bound = _bound_by_lambdas(tokens)
    found, depth, inside = [], 0, None
    for at, token in enumerate(tokens):
        if token.is_sign and token.text in ("(", ")"):
            depth += 1 if token.text == "(" else -1
            if inside is None and token.text == "(" and at + 1 < len(tokens) and tokens[at + 1].word in _QUERY:
                inside = depth
            elif inside is not None and depth < inside:
                inside = None
        if inside is None and token.text.lower() in names - bound and _may_be_column(tokens, at):
            found.append(at)
    return found


def _may_be_column(tokens: Sequence[Token], at: int) -> bool:
    token = tokens[at]
    before = tokens[at - 1] if at else None
    behind = tokens[at + 1] if at + 1 < len(tokens) else None
    if not (token.is_quoted or token.kind is Kind.WORD):
        return False
    if before is not None and (
        (before.is_sign and before.text in (".", ":", "{"))
        or before.word == "as"
        or before.kind in (Kind.NUMBER, Kind.STRING, Kind.BYTES)  # INTERVAL 1 day
    ):
        return False
    if behind is None:
        return True
    is_call = behind.is_sign and behind.text in ("(", "=>", "->", "}")
    return not (is_call or behind.kind in (Kind.STRING, Kind.BYTES) or behind.word == "from")  # DATE '…', EXTRACT


def _bound_by_lambdas(tokens: Sequence[Token]) -> frozenset[str]:
    """``x -> …`` and ``(x, y) -> …``."""
    found: set[str] = set()
    for at, token in enumerate(tokens):
        if not (token.is_sign and token.text == "->") or at == 0:
            continue
        back = at - 1
        found.add(tokens[back].text.lower())
        while tokens[at - 1].text == ")" and back > 0 and tokens[back].text != "(":
            back -= 1
            found.add(tokens[back].text.lower())
    return frozenset(found)
