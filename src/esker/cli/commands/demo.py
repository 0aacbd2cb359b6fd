"""``esker demo``: the tour that ``make demo`` runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from esker.cli.shared_options import current_settings, shared_options


@click.command("demo")
@shared_options
def demo_command() -> int:
    """Run a tour: a streaming query on Spark loads telemetry into a lake in a temporary folder. Meanwhile its driver,
    an executor and the receiver are killed. Then the tables are queried and changed, earlier snapshots are read, and a
    report is written."""
    from esker.demo.tour import run_silently, tell

    if not current_settings().as_json:
        return tell()
    from esker.cli.answer import print_json
    from esker.cli.failure import FINDING

    story = run_silently()
    assert story.identity is not None
    facts: dict[str, Any] = {
        "steps": [{"step": step.what, "found": step.found, "s": round(step.seconds, 3)} for step in story.steps],
        "killed": story.killed,
        "batches": [asdict(batch) for batch in story.batches],
        "versions": story.versions,
        "sent": story.identity.sent,
        "tables": story.identity.in_tables,
        "dead_letters": story.identity.dead_letters,
        "lost": story.identity.lost,
        "duplicated": story.identity.duplicated,
        "counted_by": story.counted_by,
        "seconds": round(story.seconds, 3),
    }
    print_json(facts)
    return 0 if story.holds else FINDING
