"""Names that log rotation gives: which file may a name have come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_PACKED = re.compile(r"\.(gz|zst|zstd)$")
_DIGITS = r"\d+(?:[-_.:T]\d+)*Z?"  # a number, a date, a moment
_BEHIND = re.compile(rf"^(?P<origin>.+?)[-_.](?:{_DIGITS}|old|bak|prev)$")  # app.log.1, app.log-20240131
_WITHIN = re.compile(rf"^(?P<front>.+?)[-_.]{_DIGITS}(?P<ending>\.[A-Za-z]\w*)$")  # app-2024-01-31T12-00-00.000.log
_NUMBER = re.compile(r"^(?P<origin>.+)\.(?P<number>\d{1,3})$")


def copied_from(path: Path) -> list[Path]:
    """The paths whose content rotation may have copied or compressed to ``path``, which keeps the original or not:
    in the same directory, or in the one above it, as an ``olddir`` is."""
    names = list(dict.fromkeys(_origins(path.name)))
    return [folder / name for folder in (path.parent, path.parent.parent) for name in names]


def shifted_from(path: Path) -> list[Path]:
    """The paths that had a lower number before rotation renamed them and compressed them: ``app.log.1`` for
    ``app.log.2.gz``. Only for an original that is no longer there: two numbered files are two files."""
    found = _NUMBER.match(_PACKED.sub("", path.name))
    if found is None:
        return []
    return [path.parent / f"{found['origin']}.{number}" for number in reversed(range(int(found["number"])))]


def rotated_first(paths: Iterable[Path]) -> list[Path]:
    """The paths in their order, but what rotation left of a file, the oldest first, right before the file."""
    families: dict[Path, list[Path]] = {}
    for path in paths:
        families.setdefault(_base(path), []).append(path)
    ordered = []
    for base, family in families.items():
        ordered += sorted(family, key=lambda path: (path == base, -_number(path)))
    return ordered


def _base(path: Path) -> Path:
    plain = _PACKED.sub("", path.name)
    found = _BEHIND.match(plain)
    return path.parent / (found["origin"] if found else plain)


def _number(path: Path) -> int:
    found = _NUMBER.match(_PACKED.sub("", path.name))
    return int(found["number"]) if found else 0


def _origins(name: str) -> Iterator[str]:
    plain = _PACKED.sub("", name)
    if plain != name:
        yield plain
    for form in (_BEHIND, _WITHIN):
        if found := form.match(plain):
            yield "".join(found.groupdict().values())
