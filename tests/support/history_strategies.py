"""Random histories, wilder than any writer's: each snapshot lists some of the manifests there are."""

from __future__ import annotations

from hypothesis import strategies as st
from table_strategies import Story


@st.composite
def histories(draw: st.DrawFn, base: st.SearchStrategy[Story]) -> Story:
    """A table of several snapshots: data and deletes come, go and come back."""
    story = draw(base)
    for _ in range(draw(st.integers(2, 4))):
        # A manifest keeps the row ids that its first snapshot gave it: rows are known by them.
        manifests = list(story.maker.manifests)
        listed = draw(st.lists(st.sampled_from(manifests), unique_by=lambda manifest: manifest.path))
        story.maker.snapshot(listed, summary={"operation": draw(st.sampled_from(["append", "overwrite", "delete"]))})
    return story
