"""Locations: the URIs that table files are recorded under, in the many spellings that engines use."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")  # one letter would be a Windows drive, not a scheme
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "wasbs": "wasb", "abfss": "abfs", "gcs": "gs"}


@dataclass(frozen=True, slots=True)
class Location:
    """A location taken apart. ``s3a`` counts as ``s3``; a plain path has the scheme ``file``."""

    scheme: str
    authority: str
    path: str  # without a trailing slash, "." segments and doubled slashes folded; ".." kept for the storage to judge

    @classmethod
    def parse(cls, text: str) -> Location:
        """Take apart ``scheme://authority/path``, ``file:/path``, ``/path`` or a relative path."""
        match = _SCHEME.match(text)
        if match is None:
            return cls("file", "", _fold(text))
        scheme, rest = match[1].lower(), text[match.end() :]
        authority = ""
        if rest.startswith("//"):
            authority, slash, tail = rest[2:].partition("/")
            rest = slash + tail or "/"  # a bucket's root, with or without its slash
        return cls(_SAME_STORE.get(scheme, scheme), authority, _fold(rest))

    @property
    def is_relative(self) -> bool:
        """A path with neither scheme nor leading slash."""
        return self.scheme == "file" and not self.path.startswith("/")

    def below(self, base: Location) -> str | None:
        """The way from ``base`` down to this location, or None where it does not lie below.

        Engines drop scheme and host as they like (``hdfs://host/a`` and ``/a`` are one place to Hive), so these
        must differ outright to count as different.
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
        """Whether this location is ``root`` or surely below it: in the same store, by a path that does not climb."""
        if (self.scheme, _host(self)) != (root.scheme, _host(root)) or ".." in self.path.split("/"):
            return False
        return self.path == root.path or self.path.startswith(root.path.rstrip("/") + "/")


def how_to_allow(place: str) -> str:
    """What a person can do who wants to use files in a place that is refused."""
    return f"to allow it, name {place} or a folder above it in allowed_roots=[…], or with --allow-root"


def _host(location: Location) -> str:
    return "" if location.scheme == "file" and location.authority == "localhost" else location.authority


def _fold(path: str) -> str:
    lead = "/" if path.startswith("/") else ""
    kept = [part for part in path.split("/") if part not in ("", ".")]
    return lead + "/".join(kept)


def climbs(path: str) -> bool:
    """Whether a relative path leaves the place it starts from."""
    return posixpath.normpath(path).split("/")[0] == ".." or path.startswith("/")
