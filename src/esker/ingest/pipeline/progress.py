"""What the batches of a pipeline held, for the progress that Spark reports of them."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any

from esker.ingest.counts import BatchCounts

_KEPT = 1000  # batches; Spark keeps the progress of 100


class Tally:
    """The numbers of one query's batches. For several threads."""

    def __init__(self, ingest: str) -> None:
        self.ingest = ingest
        self.pending = 0  # rows whose commit cannot be made now
        self._batches: dict[int, BatchCounts] = {}
        self._lock = Lock()

    def note(self, number: int, counts: BatchCounts) -> None:
        """A batch is in its tables."""
        with self._lock:
            self._batches[number] = counts
            while len(self._batches) > _KEPT:
                del self._batches[min(self._batches)]

    def between(self, start: Mapping[str, Any], end: Mapping[str, Any], latest: Mapping[str, Any]) -> dict[str, int]:
        """The numbers of the batches between two offsets; what waits is what the source reported at its last look."""
        with self._lock:
            held = [self._batches[at] for at in range(start.get("next", 0), end.get("next", 0)) if at in self._batches]
        dead = sum(counts.dead_letters for counts in held)
        return {
            "received": sum(counts.received for counts in held),
            "committed": sum(sum(counts.rows.values()) for counts in held) - dead,
            "dead": dead,
            "deduplicated": sum(counts.deduplicated for counts in held),
            "dropped": sum(sum(counts.dropped.values()) for counts in held),
            "added": sum(sum(counts.added.values()) for counts in held),
            "pending": self.pending,
            "lag_files": latest.get("waiting_files", 0),
            "lag_bytes": latest.get("waiting_bytes", 0),
            "lag_offsets": latest.get("waiting_offsets", 0),
        }
