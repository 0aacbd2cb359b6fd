"""How far a stream from Kafka has come, in the form in which Spark keeps it in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from esker.errors import InvalidInput
from esker.kafka.ranges import OffsetRange, Positions, as_json, positions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Up to where each partition is read.

    ``begins`` says where the batch that ends here begins in partitions of which the offset before does not tell, or
    not truly: the first batch of a stream, partitions that were added, what was gone. So a batch that Spark sends
    again is the same batch, whatever the topic has become meanwhile.
    """

    ends: Positions = field(default_factory=dict)
    begins: Positions = field(default_factory=dict)
    skipped: int = 0  # offsets that were gone, since the stream began
    is_begun: bool = True

    def ranges_from(self, start: StreamOffset) -> list[OffsetRange]:
        """What lies between an earlier offset and this one."""
        found = []
        for place, end in sorted(self.ends.items()):
            begin = self.begins.get(place, start.ends.get(place, end))
            if begin < end:
                found.append(OffsetRange(topic=place.topic, partition=place.number, start=begin, end=end))
        return found

    def as_json(self) -> dict[str, Any]:
        """The offset as Spark keeps it."""
        return {
            "ends": as_json(self.ends),
            "begins": as_json(self.begins),
            "skipped": self.skipped,
            "begun": self.is_begun,
        }

    @classmethod
    def of(cls, given: Any) -> StreamOffset:
        """The offset that Spark kept; ``InvalidInput`` for one that is not ours."""
        match given:
            case {"ends": dict(ends), "begins": dict(begins), "skipped": int(skipped), "begun": bool(is_begun)}:
                what = "the checkpoint's offsets"
                return cls(
                    ends=positions_of(ends, what),
                    begins=positions_of(begins, what),
                    skipped=skipped,
                    is_begun=is_begun,
                )
            case _:
                raise InvalidInput(f"cannot go on from the checkpoint: {given!r} is no offset of a stream from Kafka")


UNBEGUN = StreamOffset(is_begun=False)
