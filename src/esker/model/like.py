"""LIKE patterns: ``%`` is any text, ``_`` any one character, and an escape takes either for itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from esker.errors import InvalidInput

ANY_TEXT, ANY_CHARACTER = "%", "_"


def escaped(text: str, escape: str = "\\") -> str:
    """The pattern that matches just this text."""
    return re.sub(r"[%_" + re.escape(escape) + "]", lambda found: escape + found[0], text)


def pieces(pattern: str, escape: str = "\\") -> Iterator[tuple[str, bool]]:
    """Character by character: each with whether it is a wildcard."""
    if len(escape) != 1:
        raise InvalidInput(f"a LIKE pattern's escape is one character, not {escape!r}")
    characters = iter(pattern)
    for character in characters:
        if character != escape:
            yield character, character in (ANY_TEXT, ANY_CHARACTER)
            continue
        following = next(characters, None)
        if following is None:
            raise InvalidInput(f"the LIKE pattern {pattern!r} ends in its escape character")
        if following not in (ANY_TEXT, ANY_CHARACTER, escape):
            raise InvalidInput(f"the LIKE pattern {pattern!r} escapes {following!r}, which needs no escape")
        yield following, False


def literal_prefix(pattern: str, escape: str = "\\") -> tuple[str, str]:
    """The text every match begins with, and the kind of what follows.

    The kind is ``""`` for nothing (the pattern is the text), ``"%"`` for any text at all, ``"?"`` for more.
    """
    prefix: list[str] = []
    parts = list(pieces(pattern, escape))
    for at, (character, wild) in enumerate(parts):
        if wild:
            rest = parts[at:]
            return "".join(prefix), "%" if all(part == (ANY_TEXT, True) for part in rest) else "?"
        prefix.append(character)
    return "".join(prefix), ""


def as_regex(pattern: str, escape: str = "\\") -> str:
    """The pattern as an RE2 expression for the whole text."""
    out: list[str] = []
    for character, wild in pieces(pattern, escape):
        if not wild:
            out.append(re.escape(character))
        elif character == ANY_CHARACTER:
            out.append(".")
        elif not out or out[-1] != ".*":
            out.append(".*")
    return f"^(?s:{''.join(out)})$"
