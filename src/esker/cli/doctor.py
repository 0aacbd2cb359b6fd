"""``esker doctor``: is everything here that Esker needs?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from esker.cli.settings import current_settings, shared_options

if TYPE_CHECKING:
    from esker.cli.screen import Screen

SIGNS = {"ok": "ok", "note": "note", "finding": "PROBLEM"}


@click.command("doctor")
@shared_options
def command() -> None:
    """Check this machine: versions, Java, the compiled decoders, exclusive creates in the store.

    Exit status 1 says that something was found.
    """
    from esker.cli.answer import answer
    from esker.cli.checks import every_check
    from esker.cli.failure import FINDING

    checks = every_check(current_settings())
    findings = sum(check.level == "finding" for check in checks)
    facts: dict[str, Any] = {
        "healthy": not findings,
        "findings": findings,
        "checks": [{"check": c.name, "level": c.level, "said": c.said, "advice": c.advice} for c in checks],
    }
    answer(facts, lambda screen: _show(screen, facts))
    if findings:
        click.get_current_context().exit(FINDING)


def _show(screen: Screen, facts: dict[str, Any]) -> None:
    from esker.cli.screen import Column
    from esker.cli.wording import counted

    columns = [Column("check"), Column(""), Column("", wraps=True)]
    rows = []
    for check in facts["checks"]:
        said = check["said"] + (f". {check['advice']}" if check["advice"] else "")
        rows.append((check["check"], SIGNS[check["level"]], said))
    screen.table(columns, rows)
    if facts["healthy"]:
        screen.note("Nothing wrong was found.")
    else:
        screen.warning(f"{counted(facts['findings'], 'problem')} found.")
