"""A plan that workers make has the same tasks, funnel and effects as one that this process makes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from query_strategies import queries
from table_strategies import Story, stories

from esker.read import prune_manifest, prune_on_workers
from esker.read.plan_tasks import Tasks
from esker.read.prune_manifest import FileFacts, float_columns, span_columns
from esker.read.prune_manifest_list import prune_manifest_list
from esker.read.scan import Scan
from esker.storage.memory import MemoryStorage

EXAMPLES = settings(max_examples=min(10, settings.default.max_examples))


class OtherProcesses:
    """Does the work as workers do: everything is pickled on both ways. Counts the parts."""

    def __init__(self) -> None:
        self.parts = 0

    def spread(self, work: Callable[[Any], Any], parts: Sequence[Any], session: object) -> Iterator[Any]:
        order = pickle.dumps(work)
        for part in parts:
            self.parts += 1
            yield pickle.loads(pickle.dumps(pickle.loads(order)(pickle.loads(pickle.dumps(part)))))


def told(scan: Scan) -> str:
    """The plan as a text: a partition of NaN does not equal itself."""
    schema = scan.resolved.schema
    plan = scan._reported(FileFacts(floats=float_columns(schema), spans=span_columns(scan.metadata, schema)))
    assert isinstance(plan.tasks, Tasks)
    spans = {id_: repr(span) for id_, span in plan.tasks.spans.items()}
    return repr((plan.funnel, plan.effects, list(plan.tasks), spans))


@EXAMPLES
@given(st.data(), stories())
def test_workers_make_the_same_plan(draw: st.DataObject, story: Story) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemoryStorage, "is_shared", True)
        patched.setattr(prune_on_workers, "MANIFESTS_IN_A_PART", 1)
        patched.setattr(prune_manifest, "FEW_FILES", 0)
        predicate = draw.draw(queries(story.schema, story.live_rows()))
        note(f"where {predicate!r}")
        scan = story.maker.table().scan(predicate)
        workers = OtherProcesses()
        spread = Scan(**{**scan.__dict__, "frames": workers}).planned_on_workers()
        assert told(spread) == told(scan)
        data = len(
            prune_manifest_list(scan.metadata, scan.resolved.schema, tuple(story.maker.manifests), scan.filter).data
        )
        assert workers.parts == (data if data > 1 else 0)
