"""Frames that were made before: a version of a table never changes, so neither does the frame of its files.

To plan a table's files and hand them to Spark takes tens of milliseconds, which a query over eight tables feels.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEPT = 64


class KnownFrames:
    """The frames of one session that were used last."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._frames: OrderedDict[Hashable, DataFrame] = OrderedDict()
        self._lock = Lock()

    def get(self, session: SparkSession, key: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """The frame known by the key in this session, made if it is not known."""
        with self._lock:
            if session is not self._session:  # frames of a session that ended are of no use
                self._session = session
                self._frames.clear()
            found = self._frames.get(key)
            if found is not None:
                self._frames.move_to_end(key)
                return found
        made = make()
        with self._lock:
            if session is self._session:
                self._frames[key] = made
            while len(self._frames) > _KEPT:
                self._frames.popitem(last=False)
        return made
