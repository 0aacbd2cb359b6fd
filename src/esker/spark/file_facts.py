"""What all rows of a file share and no file holds: its path, its spec, its partition's values, its lineage.

Where every file of a scan agrees the fact is a literal; else a small table of facts is joined by the file's number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from esker.arrow.constants import array_of
from esker.model.types import LONG, Type
from esker.spark.arrow_frames import frame_of_columns
from esker.spark.file_scan import NUMBER
from esker.spark.literals import stored_literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_NUMBER = "__esker_fact_of"


@dataclass(frozen=True, slots=True)
class Fact:
    """One held value per file, in the order of the scan's files."""

    type: Type
    values: Sequence[Any]

    @property
    def is_shared(self) -> bool:
        """Whether all files agree; the two zeros are equal and differ."""
        first = self.values[0]
        return all(value is first or (value == first and repr(value) == repr(first)) for value in self.values)


def fact_columns(facts: Mapping[str, Fact]) -> dict[str, Column]:
    """Each fact as a column of the frame that ``with_facts`` gives."""
    return {
        name: stored_literal(fact.type, fact.values[0]) if fact.is_shared else F.col(f"__esker_{name}")
        for name, fact in facts.items()
    }


def is_joined(facts: Mapping[str, Fact]) -> bool:
    """Whether files differ, so that the frame needs to know each row's file."""
    return any(not fact.is_shared for fact in facts.values())


def with_facts(session: SparkSession, frame: DataFrame, numbers: Sequence[int], facts: Mapping[str, Fact]) -> DataFrame:
    """The frame with the facts that differ from file to file."""
    differing = {name: fact for name, fact in facts.items() if not fact.is_shared}
    if not differing:
        return frame
    columns = [(f"__esker_{name}", fact.type, array_of(fact.type, fact.values)) for name, fact in differing.items()]
    table = frame_of_columns(session, [(_NUMBER, LONG, array_of(LONG, numbers)), *columns])
    return frame.join(F.broadcast(table), F.col(NUMBER) == F.col(_NUMBER), "left").drop(_NUMBER)
