"""The report on a terminal."""

from __future__ import annotations

from pathlib import Path

from esker.demo.page import next_commands
from esker.demo.story import Story


def report(story: Story, folder: Path, page: Path) -> None:
    """What was done, what came of it, and how long it took."""
    from rich.panel import Panel
    from rich.table import Table

    console = story.console
    console.print(f"\n[dim]{story.explained}[/]\n", highlight=False)
    shown = Table(show_edge=False, pad_edge=False)
    shown.add_column("step")
    shown.add_column("found", style="cyan")
    shown.add_column("s", justify="right")
    for step in story.steps:
        shown.add_row(step.what, step.found, f"{step.seconds:,.1f}")
    shown.add_section()
    shown.add_row("[bold]in all[/]", "", f"{story.seconds:,.1f}")
    console.print(shown)
    assert story.identity is not None
    same = " · ".join(f"{engine} {rows:,}" for engine, rows in story.counted_by.items())
    lines = [story.identity.text(), f"same rows: {same}", "", f"[dim]{story.identity.resent_text()}[/]"]
    console.print(Panel("\n".join(lines), title=story.headline(), border_style="green" if story.holds else "red"))
    console.print(
        f"[dim]{' · '.join(f'{name} {version}' for name, version in story.versions.items())}[/]", highlight=False
    )
    console.print(f"\nopen: {page}", highlight=False, soft_wrap=True)
    for command in next_commands(folder):
        console.print(f"next: [bold]{command}[/]", highlight=False, soft_wrap=True)
    console.print()
