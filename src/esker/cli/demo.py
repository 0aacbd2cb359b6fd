"""``esker demo``: the tour of ``make demo``."""

from __future__ import annotations

from typing import Any

import click

from esker.cli.settings import current_settings, shared_options


@click.command("demo")
@shared_options
def command() -> None:
    """Take the tour: make a lake in a temporary folder, fill, ask and change it, and report."""
    from esker.demo import run_silently, tell

    if not current_settings().as_json:
        tell()
        return
    from esker.cli.answer import print_json

    steps = run_silently().steps
    facts: dict[str, Any] = {
        "steps": [{"step": what, "found": found, "ms": round(taken * 1000)} for what, found, taken in steps],
        "ms": round(sum(taken for _, _, taken in steps) * 1000),
    }
    print_json(facts)
