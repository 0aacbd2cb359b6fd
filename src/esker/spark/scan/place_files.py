"""Where Spark's own readers find the files of a scan, and which files they must not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esker.errors import Unsupported
from esker.ports.engine import ScanTask
from esker.ports.storage import Storage, hadoop_file, parallel_reads
from esker.spark.scan.file_scan import PlacedFile
from esker.spark.scan.hadoop_systems import READER, Choice, HadoopSystems
from esker.spark.session.jvm import Jvm
from esker.tree.data_file import DataFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "Spark's readers would skip files of such a name"
_LOCAL = "the files have no path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Places the files of one scan."""

    storage: Storage
    session: SparkSession
    jvm: Jvm | None  # None on Spark Connect
    systems: HadoopSystems
    choice: Choice

    def place(self, file: DataFile, number: int) -> PlacedFile | str:
        """Return the file for Spark, or why Spark cannot reach it or would skip it without an error.

        Raises ``Unsupported`` if Spark's own readers were asked for, and the session cannot reach the file.
        """
        local = self.storage.local_path(file.path)  # refuses a file that this lake may not read
        if self.choice is Choice.ARROW:
            return f"{READER} is arrow"
        if local is not None:
            # The size decides which part of a file a task reads. Manifests of other writers may have a wrong size.
            placed = PlacedFile(f"file:{local}", Path(local).stat().st_size, number)
        else:
            named = hadoop_file(self.storage, file.path)
            if "://" not in named.uri:
                return _LOCAL
            opened = self.systems.open(self.session, self.jvm, named, self.choice)
            if isinstance(opened, str):
                return self._refused(file, opened)
            placed = PlacedFile(opened.uri, max(file.file_size, 1), number, opened.opening)
        return placed if placed.size > 0 and not _is_hidden(placed.uri) else _NAME

    def _refused(self, file: DataFile, why: str) -> str:
        if self.choice is Choice.NATIVE:
            raise Unsupported(
                f"cannot read {file.path} with Spark's own reader: {why}; {READER}=auto reads it with Arrow",
                feature="native reader",
                file=file.path,
            )
        return why

    def measured(self, placed: Sequence[tuple[ScanTask, PlacedFile]]) -> list[tuple[ScanTask, PlacedFile]]:
        """Return the same with the store's sizes for files whose recorded size may be too small.

        Rows after the recorded end would be missing without an error. A size after the start of the last row group is
        accepted; a file without such offsets is measured.
        """
        doubtful = [
            at
            for at, (task, file) in enumerate(placed)
            if file.opening is not None and file.size <= max(task.data_file.split_offsets, default=file.size)
        ]
        found = list(placed)
        if doubtful:
            with ThreadPoolExecutor(min(len(doubtful), parallel_reads(self.storage))) as pool:
                sizes = pool.map(lambda at: self.storage.size(placed[at][0].data_file.path), doubtful)
                for at, size in zip(doubtful, sizes, strict=True):
                    found[at] = (placed[at][0], replace(placed[at][1], size=size))
        return found


def _is_hidden(uri: str) -> bool:
    """Return whether Spark skips the file because of its name or streaming log, or Hadoop fails on a colon in the
    name."""
    name = uri.rpartition("/")[2]
    if ":" in name:
        return True
    dropped = name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
    return dropped or "/_spark_metadata" in uri


def in_one_line(found: Mapping[PlacedFile | str, int]) -> str:
    """Return in one line who reads how many files, and why not Spark's own readers."""
    own: Counter[str] = Counter()
    arrow: Counter[str] = Counter()
    for one, count in found.items():
        if isinstance(one, str):
            arrow[one] += count
        else:
            own["" if one.opening is None else f" through {one.opening.scheme}"] += count
    parts = [f"Spark's own reader{through} for {counted(count)}" for through, count in own.items()]
    if arrow:
        parts.append(f"Arrow in the workers for {counted(arrow.total())}: {arrow.most_common(1)[0][0]}")
    return ", ".join(parts) or "no file to read"


def counted(count: int) -> str:
    """Return a number of files, as text."""
    return f"{count:,} file{'' if count == 1 else 's'}"
