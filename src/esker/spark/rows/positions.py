"""Which positions of which files go, brought here in blocks: two columns and a short number for each row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from esker.spark.file_scan import NUMBER, POSITION
from esker.spark.position_deletes import Int64s
from esker.spark.rows.decide import CLAUSE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BITS = 16


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a change were."""

    gone: dict[int, Int64s]  # by the number of a file, in order; a position that occurs twice is there twice
    by_clause: Mapping[int, int]  # how many rows each clause applied to, those that were nowhere among them

    @classmethod
    def of(cls, changes: DataFrame) -> Places:
        """One job groups the positions by file."""
        from pyspark.sql import functions as F  # noqa: N812

        blocks = (
            changes.groupBy(
                F.col(CLAUSE).alias("clause"),
                F.col(NUMBER).alias("n"),
                F.expr(f"shiftright({POSITION}, {_BITS})").alias("block"),
            )
            .agg(
                F.count(F.lit(1)).alias("rows"),
                F.collect_list(F.expr(f"CAST({POSITION} & {(1 << _BITS) - 1} AS INT)")).alias("low"),
            )
            .toArrow()
            .combine_chunks()
        )
        by_clause: Counter[int] = Counter()
        for clause, rows in zip(blocks.column("clause").to_pylist(), blocks.column("rows").to_pylist(), strict=True):
            by_clause[clause] += rows
        return cls(_by_file(blocks.filter(blocks.column("n").is_valid()).combine_chunks()), by_clause)

    @property
    def rows(self) -> int:
        """Of the change, those that were nowhere among them."""
        return sum(self.by_clause.values())

    @property
    def has_new(self) -> bool:
        """Whether some of the rows were nowhere."""
        return self.rows > sum(map(len, self.gone.values()))

    def once(self, clause: int) -> Places:
        """The same where each position counts once; only that clause may have named one twice."""
        gone = {number: np.unique(held) for number, held in self.gone.items()}
        twice = sum(map(len, self.gone.values())) - sum(map(len, gone.values()))
        return Places(gone, {**self.by_clause, clause: self.by_clause.get(clause, 0) - twice})

    @property
    def first_twice(self) -> tuple[int, int] | None:
        """A file's number and a position that is there twice, if there is one."""
        for number, held in self.gone.items():
            twice = np.flatnonzero(held[1:] == held[:-1])
            if len(twice):
                return number, int(held[twice[0]])
        return None


def _by_file(blocks: pa.Table) -> dict[int, Int64s]:
    if not blocks.num_rows:
        return {}
    low = blocks.column("low").combine_chunks()
    lengths = low.value_lengths().to_numpy(zero_copy_only=False)
    numbers = np.repeat(blocks.column("n").to_numpy(), lengths)
    starts = np.repeat(blocks.column("block").to_numpy().astype(np.int64) << _BITS, lengths)
    positions = starts + low.flatten().to_numpy(zero_copy_only=False)
    order = np.lexsort((positions, numbers))
    numbers, positions = numbers[order], positions[order]
    files, first = np.unique(numbers, return_index=True)
    return {int(n): part for n, part in zip(files, np.split(positions, first[1:]), strict=True)}
