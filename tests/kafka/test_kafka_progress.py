"""How far a batch goes, and what is said of offsets that are gone: positions and bounds alone, no broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import InvalidInput
from esker.kafka.progress import first_positions, next_step, shared_out
from esker.kafka.subscription import (
    Bounds,
    OffsetRange,
    Partition,
    as_json,
    assigned_of,
    pattern_of,
    positions_of,
    topics_of,
)

ZERO, ONE = Partition("t", 0), Partition("t", 1)
places = st.builds(Partition, st.sampled_from(["a", "b"]), st.integers(0, 5))
waiting = st.dictionaries(places, st.integers(0, 1 << 40), max_size=8)


@given(waiting, st.integers(1, 1 << 41))
def test_a_limit_is_kept_used_up_and_never_gives_a_partition_more_than_waits(
    found: dict[Partition, int], most: int
) -> None:
    shares = shared_out(found, most)
    assert sum(shares.values()) == min(most, sum(found.values()))
    assert all(0 <= shares[place] <= found[place] for place in found)


@given(waiting, st.integers(1, 1000))
def test_batch_after_batch_reads_every_offset_once(found: dict[Partition, int], most: int) -> None:
    bounds = {place: Bounds(3, 3 + size % 500) for place, size in found.items()}
    positions = first_positions("earliest", bounds)
    read: list[tuple[Partition, int]] = []
    while (step := next_step(positions, bounds, most=most)).ranges:
        read += [(one.place, offset) for one in step.ranges for offset in range(one.start, one.end)]
        positions = step.ends
    assert sorted(read) == sorted((place, at) for place, (low, high) in bounds.items() for at in range(low, high))
    assert len(read) == len(set(read))


@given(st.dictionaries(places, st.integers(-2, 1 << 62)))
def test_positions_read_back_as_they_were_written(positions: dict[Partition, int]) -> None:
    assert positions_of(as_json(positions), "them") == positions


def test_a_partition_that_was_added_begins_at_its_first_message() -> None:
    step = next_step({ZERO: 5}, {ZERO: Bounds(0, 7), ONE: Bounds(2, 4)})
    assert step.ranges == [
        OffsetRange(topic="t", partition=0, start=5, end=7),
        OffsetRange(topic="t", partition=1, start=2, end=4),
    ]


def test_offsets_that_are_gone_are_an_error_or_passed_over_and_counted() -> None:
    bounds = {ZERO: Bounds(30, 40)}
    with pytest.raises(
        InvalidInput,
        match=r"partition 0 of t from offset 5: .* no longer has offsets before 30, so 25 offsets are gone",
    ):
        next_step({ZERO: 5}, bounds)
    step = next_step({ZERO: 5}, bounds, fail_on_loss=False)
    assert (step.skipped, step.ranges) == (25, [OffsetRange(topic="t", partition=0, start=30, end=40)])


def test_a_recreated_topic_is_reported_or_on_request_read_from_its_first_message() -> None:
    bounds = {ZERO: Bounds(0, 3)}
    with pytest.raises(
        InvalidInput, match="from offset 5: the broker has no more than 3 offsets, so the topic was recreated"
    ):
        next_step({ZERO: 5}, bounds)
    assert next_step({ZERO: 5}, bounds, fail_on_loss=False).ranges[0].start == 0


def test_a_partition_that_no_longer_exists_is_reported_or_on_request_forgotten() -> None:
    with pytest.raises(
        InvalidInput, match="cannot read partition 1 of t from offset 2: the broker no longer has this partition"
    ):
        next_step({ZERO: 1, ONE: 2}, {ZERO: Bounds(0, 3)})
    assert next_step({ZERO: 1, ONE: 2}, {ZERO: Bounds(0, 3)}, fail_on_loss=False).ends == {ZERO: 3}


def test_reading_begins_where_it_is_told_to() -> None:
    bounds = {ZERO: Bounds(3, 9), ONE: Bounds(0, 4)}
    assert first_positions("earliest", bounds) == {ZERO: 3, ONE: 0}
    assert first_positions("latest", bounds) == {ZERO: 9, ONE: 4}
    assert first_positions({ZERO: -1, ONE: 2}, bounds) == {ZERO: 9, ONE: 2}
    with pytest.raises(InvalidInput, match="cannot start partition 1 of t: it has no starting offset"):
        first_positions({ZERO: -2}, bounds)
    with pytest.raises(InvalidInput, match="cannot start at partition 7 of t: it is not one of the partitions to read"):
        first_positions({ZERO: 1, ONE: 1, Partition("t", 7): 1}, bounds)


@pytest.mark.parametrize("text", ["", "[]", '{"t": 5}', '{"t": {"x": 1}}', '{"t": {"0": "1"}}', '{"t": {"0": -3}}'])
def test_what_is_no_document_of_positions_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot use startingOffsets: it must have the form"):
        positions_of(text, "startingOffsets")


def test_what_cannot_be_subscribed_to_is_refused() -> None:
    assert topics_of("a, b,a").names == ("a", "b")
    assert assigned_of('{"t": [1, 0]}').places == (ZERO, ONE)
    with pytest.raises(InvalidInput, match="'a b' is not a valid name of a topic"):
        topics_of("x,a b")
    with pytest.raises(InvalidInput, match=r"cannot subscribe to topics that match '\[': "):
        pattern_of("[")
    for text in ("", "{}", '{"t": 1}', '{"t": ["0"]}', '{"t": [-1]}', "[1]"):
        with pytest.raises(InvalidInput, match="cannot assign partitions: the option must have the form"):
            assigned_of(text)
