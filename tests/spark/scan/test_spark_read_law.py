"""Spark gives what Arrow gives, over random tables: formats, evolution, partitions, deletes and filters."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from delete_strategies import with_deletes
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from query_strategies import queries, spelt
from spark_tables import agrees, on_disk
from table_strategies import Story, stories

from esker.model.types import Field, TimestampType, children

EXAMPLES = settings(
    max_examples=15 if settings.default.max_examples <= 100 else settings.default.max_examples // 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # an example takes a second, and shrinking hundreds of them
)


def is_shown(f: Field) -> bool:
    """Spark has no nanoseconds."""
    if isinstance(f.type, TimestampType) and f.type.nanos:
        return False
    return all(is_shown(inner) for inner in children(f.type))


def ask(spark: Any, data: st.DataObject, story: Story) -> None:
    columns = [f.name for f in story.schema if is_shown(f) and "." not in f.name]
    with tempfile.TemporaryDirectory() as folder:
        table = on_disk(story.maker, Path(folder))
        agrees(table.scan(columns=columns), spark)
        predicate = data.draw(queries(story.schema, story.live_rows()))
        where = spelt(predicate, "as it is")
        note(f"where {where!r}")
        scan = table.scan(where, columns=columns)
        if all(is_shown(story.schema.by_id[id_]) for id_ in _asked(scan)):
            agrees(scan, spark)


def _asked(scan: Any) -> frozenset[int]:
    from esker.model.predicates.predicate import field_ids

    return field_ids(scan.filter)


@pytest.mark.slow
@EXAMPLES
@given(story=stories(), data=st.data())
def test_spark_gives_what_arrow_gives(spark: Any, story: Story, data: st.DataObject) -> None:
    ask(spark, data, story)


@pytest.mark.slow
@EXAMPLES
@given(story=with_deletes(stories(versions=(2, 3))), data=st.data())
def test_spark_gives_what_arrow_gives_whatever_was_deleted(spark: Any, story: Story, data: st.DataObject) -> None:
    ask(spark, data, story)
