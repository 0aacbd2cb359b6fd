"""A command's answer: facts for a program, a screen for a person, from one place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from esker.cli.plain_values import to_json
from esker.cli.settings import current_settings

if TYPE_CHECKING:
    from esker.cli.screen import Screen


def answer(facts: Mapping[str, Any], show: Callable[[Screen], None]) -> None:
    """Print the facts as one JSON document, or let ``show`` tell them."""
    if current_settings().as_json:
        print_json(facts)
        return
    from esker.cli.screen import Screen

    screen = Screen()
    show(screen)
    screen.show()


def print_json(facts: Mapping[str, Any]) -> None:
    """One document, with every number exact."""
    sys.stdout.write(to_json(facts) + "\n")
    sys.stdout.flush()


def print_json_rows(facts: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """One document whose last member ``rows`` may be long.

    It is put together beside memory and printed when it is whole, so that a failure on the way leaves no half
    document behind.
    """
    import shutil
    from tempfile import SpooledTemporaryFile

    head = to_json(facts)
    with SpooledTemporaryFile(max_size=8 << 20, mode="w+", encoding="utf-8", errors="backslashreplace") as draft:
        draft.write(head.removesuffix("}").rstrip("\n") + (",\n" if facts else "") + '  "rows": [')
        between = "\n    "
        for row in rows:
            draft.write(between + to_json(row, indent=None))
            between = ",\n    "
        draft.write(("\n  " if between.startswith(",") else "") + "]\n}\n")
        draft.seek(0)
        shutil.copyfileobj(draft, sys.stdout)
    sys.stdout.flush()
