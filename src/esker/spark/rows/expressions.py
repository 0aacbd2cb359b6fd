"""The expressions of a merge, read by Spark before a row is: each in the scope of its clause, with its type.

What cannot be read is refused by naming the expression and where it stands; Spark's own message says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.model.predicate_sql import quote_name
from esker.model.spark_schema import columns_from_spark
from esker.model.types import BooleanType, Type, UnknownType
from esker.ports.merging import MergePlan, Side, SqlText
from esker.spark.sql.functions.calls import expanded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    plan: MergePlan
    frames: Mapping[str, Any]

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
                    f"cannot {self.plan.verb}: {what}, {piece.shown!r}{where}, is not understood: {error.message}",
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
                f"cannot {self.plan.verb}: {what}, {said.shown!r}{where}, is no condition but a value of type {type_}",
                place=said.place,
            )
        if "(" in said.text:
            self._check_deterministic(side, what, said)

    def _check_deterministic(self, side: Side, what: str, said: SqlText) -> None:
        """A condition that would not say the same twice chooses rows by chance. Spark allows none in a join."""
        where = f" (at {said.place})" if said.place else ""
        try:
            self.query(f"SELECT 1 FROM {self._sources(side)} JOIN (SELECT 1) AS esker_one ON ({said.text})")
        except InvalidInput as error:
            if "NON_DETERMINISTIC" not in error.message:
                return  # something else that a join does not allow, and a condition does
            raise InvalidInput(
                f"cannot {self.plan.verb}: {what}, {said.shown!r}{where}, does not give the same answer twice; "
                "compute its values in a table or view first",
                place=said.place,
            ) from None

    def query(self, template: str) -> DataFrame:
        """Spark's frame of a query over the frames; ``InvalidInput`` with Spark's words where it is none."""
        from pyspark.errors import AnalysisException, ParseException

        try:
            with _said_once():
                found = self.session.sql(expanded(template), **{**self.plan.frames, **self.frames})
                found.schema  # noqa: B018  # Connect looks at a query only when something of it is asked
        except (AnalysisException, ParseException) as error:
            raise InvalidInput(_BEHIND.sub("", str(error).strip().splitlines()[0])) from None
        return found

    def _sources(self, side: Side) -> str:
        target = f"{{{TARGET}}} AS {named(self.plan.target_name)}"
        source = f"{{{SOURCE}}} AS {named(self.plan.source_name)}"
        if self.plan.source is None or side is Side.NOT_MATCHED_BY_SOURCE:
            return target
        return source if side is Side.NOT_MATCHED else f"{target} CROSS JOIN {source}"
