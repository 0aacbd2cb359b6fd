"""How far the next batch goes. No broker is asked here: positions and bounds in, ranges out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from esker.errors import InvalidInput
from esker.kafka.subscription import EARLIEST, LATEST, Bounds, OffsetRange, Partition, Positions, Starting


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Offsets that were to be read and are gone."""

    place: Partition
    offset: int
    count: int | None  # None: of a partition that is no more, nobody can tell
    reason: str

    def error(self) -> InvalidInput:
        """For who must not lose any."""
        return InvalidInput(
            f"cannot read {self.place} from offset {self.offset}: {self.reason}; to go on without what is gone, set "
            "failOnDataLoss = false, or begin anew with another checkpoint",
            topic=self.place.topic,
            partition=self.place.number,
            offset=self.offset,
            lost=self.count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From where to where each partition goes, and what is passed over on the way."""

    starts: dict[Partition, int]
    ends: dict[Partition, int]
    losses: tuple[Loss, ...] = ()

    @property
    def skipped(self) -> int:
        """Offsets that are gone, as far as they can be counted."""
        return sum(loss.count or 0 for loss in self.losses)

    @property
    def ranges(self) -> list[OffsetRange]:
        """What there is to read."""
        return [
            OffsetRange(topic=place.topic, partition=place.number, start=start, end=self.ends[place])
            for place, start in sorted(self.starts.items())
            if start < self.ends[place]
        ]


def first_positions(starting: Starting, bounds: Mapping[Partition, Bounds]) -> dict[Partition, int]:
    """Where reading begins that never began before."""
    if starting == "earliest":
        return {place: found.low for place, found in bounds.items()}
    if starting == "latest":
        return {place: found.high for place, found in bounds.items()}
    for place in starting:
        if place not in bounds:
            raise InvalidInput(f"cannot start at {place}: it is not among what is read", topic=place.topic)
    for place in bounds:
        if place not in starting:
            raise InvalidInput(
                f"cannot tell where to start {place}: name every partition, -2 for the earliest offset and -1 for "
                "the latest",
                topic=place.topic,
            )
    return {place: at_bound(starting[place], found) for place, found in bounds.items()}


def at_bound(offset: int, bounds: Bounds) -> int:
    """An offset, or the bound that it stands for."""
    return {EARLIEST: bounds.low, LATEST: bounds.high}.get(offset, offset)


def next_step(
    positions: Positions, bounds: Mapping[Partition, Bounds], *, most: int | None = None, fail_on_loss: bool = True
) -> Step:
    """The next batch from there: all that is there, or at most so many offsets, shared out by what waits where.
    Partitions that were added begin at their first message: nobody could have read what came before."""
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
            reason = "the broker has no such partition any more"
            losses.append(Loss(place=place, offset=offset, count=None, reason=reason))
    if losses and fail_on_loss:
        raise losses[0].error()
    waiting = {place: bounds[place].high - start for place, start in starts.items()}
    taken = waiting if most is None else shared_out(waiting, most)
    ends = {place: start + taken[place] for place, start in starts.items()}
    return Step(starts=starts, ends=ends, losses=tuple(losses))


def _loss(place: Partition, wanted: int, found: Bounds) -> Loss | None:
    if wanted < found.low:
        reason = f"the broker has nothing before {found.low} any more, so {found.low - wanted} offsets are gone"
        return Loss(place=place, offset=wanted, count=found.low - wanted, reason=reason)
    if wanted > found.high:
        reason = f"the broker has no more than {found.high} offsets, so the topic was made anew or cut"
        return Loss(place=place, offset=wanted, count=None, reason=reason)
    return None


def shared_out(waiting: Mapping[Partition, int], most: int) -> dict[Partition, int]:
    """At most so many, each partition in proportion to what waits there."""
    total = sum(waiting.values())
    if total <= most:
        return dict(waiting)
    shares = {place: number * most // total for place, number in waiting.items()}
    # What rounding left goes to those that it cost the most; where that is the same, by name.
    by_rest = sorted(waiting, key=lambda place: (-(waiting[place] * most % total), place))
    for place in by_rest[: most - sum(shares.values())]:
        shares[place] += 1
    return shares
