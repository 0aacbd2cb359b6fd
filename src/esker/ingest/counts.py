"""How much a batch held, as it is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEAD_LETTER_TABLE = "otel.dead_letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounts:
    """What came in and where it went. ``received`` is counted where rows are made, the rest where they are written."""

    received: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)  # by table, dead letters among them
    deduplicated: int = 0  # sent again, and left out because that was asked for
    dropped: Mapping[str, int] = field(default_factory=dict)  # by a transform, by the table they were decoded for
    added: Mapping[str, int] = field(default_factory=dict)  # likewise
    requests: int = 0
    bytes: int = 0  # of the messages of topics; the size of files is in the plan
    oddities: Mapping[str, int] = field(default_factory=dict)  # kept, and worth a word

    @property
    def dead_letters(self) -> int:
        """Records that no table could take."""
        return self.rows.get(DEAD_LETTER_TABLE, 0)
