"""The files of a table that snapshots name, as they are in its directory."""

from __future__ import annotations

import re
from collections import defaultdict

from esker.paimon.metadata.layout import Layout
from esker.ports.storage import Storage, StoredFile

_KNOWN = re.compile(
    r"(?:manifest/(?:manifest|index-manifest)-[^/]+|index/index-[^/]+|statistics/stat-[^/]+"
    r"|(?:[^/]+=[^/]*/)*bucket-[^/]+/(?:data|changelog|index)-[^/]+)"
)


def known_files(storage: Storage, layout: Layout) -> list[StoredFile]:
    """Files whose place and name show that a writer of Paimon made them, and that a snapshot may name. All other files
    are not understood and are never deleted."""
    start = layout.root.rstrip("/") + "/"
    return [file for file in storage.list(layout.root) if _KNOWN.fullmatch(_below(file.location, start))]


def _below(location: str, start: str) -> str:
    at = location.find(start)
    return location[at + len(start) :] if at >= 0 else ""


def files_by_name(storage: Storage, layout: Layout) -> dict[str, list[str]]:
    """The locations of known files, by name."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in known_files(storage, layout):
        found[file.location.rpartition("/")[2]].append(file.location)
    return found
