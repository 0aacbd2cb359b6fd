"""Locations: the URIs under which files of a table are recorded, in the forms that different engines write."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

from esker.errors import InvalidInput

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")  # one letter is a Windows drive, not a scheme
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "wasbs": "wasb", "abfss": "abfs", "gcs": "gs"}


@dataclass(frozen=True, slots=True)
class Location:
    """The parts of a location. ``s3a`` counts as ``s3``. A plain path has the scheme ``file``."""

    scheme: str
    authority: str
    path: str  # no trailing slash, no "." segments, no double slashes; ".." is kept: the storage decides about it

    @classmethod
    def parse(cls, text: str) -> Location:
        """Parse ``scheme://authority/path``, ``file:/path``, ``/path`` or a relative path."""
        match = _SCHEME.match(text)
        if match is None:
            return cls("file", "", _fold(text))
        scheme, rest = match[1].lower(), text[match.end() :]
        authority = ""
        if rest.startswith("//"):
            authority, slash, tail = rest[2:].partition("/")
            rest = slash + tail or "/"  # the root of a bucket, with or without its slash
        return cls(_SAME_STORE.get(scheme, scheme), authority, _fold(rest))

    @property
    def is_relative(self) -> bool:
        """Whether the path has neither a scheme nor a leading slash."""
        return self.scheme == "file" and not self.path.startswith("/")

    def below(self, base: Location) -> str | None:
        """The path from ``base`` to this location, or None if it is not below ``base``.

        Some engines drop the scheme and the host (to Hive, ``hdfs://host/a`` and ``/a`` are one place). So two schemes
        or hosts count as different only if both are given and differ.
        """
        if self.authority and base.authority and (self.scheme, self.authority) != (base.scheme, base.authority):
            return None
        if self.scheme != base.scheme and "file" not in (self.scheme, base.scheme):
            return None
        if self.path == base.path:
            return ""
        prefix = base.path.rstrip("/") + "/"
        if base.path in ("", "."):
            return self.path if self.is_relative else None
        return self.path[len(prefix) :] if self.path.startswith(prefix) else None

    def is_within(self, root: Location) -> bool:
        """Whether this location is ``root`` or certainly below it: in the same store, without ``..`` that leads out."""
        if (self.scheme, _host(self)) != (root.scheme, _host(root)) or ".." in self.path.split("/"):
            return False
        return self.path == root.path or self.path.startswith(root.path.rstrip("/") + "/")


def how_to_allow(place: str) -> str:
    """The advice in an error about a refused place: how to allow it."""
    return f"to allow it, name {place} or a folder above it in allowed_roots=[…], or with --allow-root"


def _host(location: Location) -> str:
    return "" if location.scheme == "file" and location.authority == "localhost" else location.authority


def _fold(path: str) -> str:
    lead = "/" if path.startswith("/") else ""
    kept = [part for part in path.split("/") if part not in ("", ".")]
    return lead + "/".join(kept)


def check_local_folder(folder: Path, what: str) -> None:
    """Raise ``InvalidInput`` if a path was made from the location of an object store: it would become a folder of that
    name on this machine. ``what`` says what is kept there."""
    scheme = next((part for part in folder.parts if _SCHEME.match(f"{part}/")), None)
    if scheme is not None:
        rest = "/".join(folder.parts[folder.parts.index(scheme) + 1 :])
        raise InvalidInput(
            f"cannot keep {what} in {scheme}//{rest}: it needs locks and synced files; give a folder of a local disk, "
            "whatever store the lake is in",
            path=str(folder),
        )


def folder_and_name(location: str) -> tuple[str, str]:
    """The folder of a location and the file's name in it, without parsing either. The name is empty if this takes
    more than cutting at the last slash: for a file directly below a root, and for a location that ends in dots."""
    folder, _, name = location.rpartition("/")
    plain = name not in (".", "..") and folder and not folder.endswith(("/", ":"))
    return (folder, name) if plain else (location, "")


def climbs(path: str) -> bool:
    """Whether a relative path leads out of the folder where it starts."""
    return posixpath.normpath(path).split("/")[0] == ".." or path.startswith("/")
