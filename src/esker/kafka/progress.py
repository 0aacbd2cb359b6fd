"""Decides how far the next batch goes: positions and bounds in, ranges of offsets out. No broker is asked here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from esker.errors import InvalidInput
from esker.kafka.subscription import EARLIEST, LATEST, Bounds, OffsetRange, Partition, Positions, Starting


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Offsets that the reader still needs and the broker no longer has."""

    place: Partition
    offset: int
    count: int | None  # None: unknown, because the partition no longer exists
    reason: str

    def error(self) -> InvalidInput:
        """Return the error to raise if no message may be lost."""
        return InvalidInput(
            f"cannot read {self.place} from offset {self.offset}: {self.reason}; to continue without the lost "
            "messages, set failOnDataLoss = false, or start again with another checkpoint",
            topic=self.place.topic,
            partition=self.place.number,
            offset=self.offset,
            lost=self.count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The next batch: where each partition starts and ends, and the offsets that were lost on the way."""

    starts: dict[Partition, int]
    ends: dict[Partition, int]
    losses: tuple[Loss, ...] = ()

    @property
    def skipped(self) -> int:
        """The number of lost offsets, as far as it is known."""
        return sum(loss.count or 0 for loss in self.losses)

    @property
    def ranges(self) -> list[OffsetRange]:
        """The ranges to read, without empty ones."""
        return [
            OffsetRange(topic=place.topic, partition=place.number, start=start, end=self.ends[place])
            for place, start in sorted(self.starts.items())
            if start < self.ends[place]
        ]


def first_positions(starting: Starting, bounds: Mapping[Partition, Bounds]) -> dict[Partition, int]:
    """Return where a new reader starts.

    Raises ``InvalidInput`` if ``starting`` names a partition that is not read, or leaves one out.
    """
    if starting == "earliest":
        return {place: found.low for place, found in bounds.items()}
    if starting == "latest":
        return {place: found.high for place, found in bounds.items()}
    for place in starting:
        if place not in bounds:
            raise InvalidInput(
                f"cannot start at {place}: it is not one of the partitions to read; remove it from the starting "
                "offsets",
                topic=place.topic,
            )
    for place in bounds:
        if place not in starting:
            raise InvalidInput(
                f"cannot start {place}: it has no starting offset; name every partition, with -2 for the earliest "
                "offset and -1 for the latest",
                topic=place.topic,
            )
    return {place: at_bound(starting[place], found) for place, found in bounds.items()}


def at_bound(offset: int, bounds: Bounds) -> int:
    """Return the offset, with the bound in place of ``EARLIEST`` or ``LATEST``."""
    return {EARLIEST: bounds.low, LATEST: bounds.high}.get(offset, offset)


def next_step(
    positions: Positions, bounds: Mapping[Partition, Bounds], *, most: int | None = None, fail_on_loss: bool = True
) -> Step:
    """Return the next batch from these positions: everything that is available, or at most ``most`` offsets.

    A limit is shared between the partitions in proportion to what waits in each. A new partition starts at its first
    message, because nobody can have read it before. Raises ``InvalidInput`` if offsets are lost and ``fail_on_loss`` is
    set.
    """
    starts: dict[Partition, int] = {}
    losses: list[Loss] = []
    for place, found in bounds.items():
        wanted = positions.get(place, found.low)
        starts[place] = wanted
        loss = _loss(place, wanted, found)
        if loss is not None:
            losses.append(loss)
            starts[place] = found.low
    for place, offset in positions.items():
        if place not in bounds:
            reason = "the broker no longer has this partition"
            losses.append(Loss(place=place, offset=offset, count=None, reason=reason))
    if losses and fail_on_loss:
        raise losses[0].error()
    waiting = {place: bounds[place].high - start for place, start in starts.items()}
    taken = waiting if most is None else shared_out(waiting, most)
    ends = {place: start + taken[place] for place, start in starts.items()}
    return Step(starts=starts, ends=ends, losses=tuple(losses))


def _loss(place: Partition, wanted: int, found: Bounds) -> Loss | None:
    if wanted < found.low:
        reason = f"the broker no longer has offsets before {found.low}, so {found.low - wanted} offsets are gone"
        return Loss(place=place, offset=wanted, count=found.low - wanted, reason=reason)
    if wanted > found.high:
        reason = f"the broker has no more than {found.high} offsets, so the topic was recreated or truncated"
        return Loss(place=place, offset=wanted, count=None, reason=reason)
    return None


def shared_out(waiting: Mapping[Partition, int], most: int) -> dict[Partition, int]:
    """Share ``most`` between the partitions, in proportion to what waits in each."""
    total = sum(waiting.values())
    if total <= most:
        return dict(waiting)
    shares = {place: number * most // total for place, number in waiting.items()}
    # What rounding leaves goes to the partitions that lost most by it; equal ones are taken by name.
    by_rest = sorted(waiting, key=lambda place: (-(waiting[place] * most % total), place))
    for place in by_rest[: most - sum(shares.values())]:
        shares[place] += 1
    return shares
