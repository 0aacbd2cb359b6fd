"""What a power cut would take: a file whose content was not synced, and a name whose folder was not synced after it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

Inode = tuple[int, int]


@dataclass(slots=True)
class WatchedDisk:
    """Every name that a program gives to a file, and at each of them the earlier names that a power cut would take."""

    named: dict[Path, frozenset[Path]] = field(default_factory=dict)  # in order; the value: names at risk just before
    _content: dict[Inode, int] = field(default_factory=dict)  # bytes of it that are on disk
    _names: set[Path] = field(default_factory=set)  # that are on disk, as far as their content is

    def at_risk(self) -> frozenset[Path]:
        """Files that are there and that a power cut would take or cut short."""
        return frozenset(name for name in self.named if name.exists() and not self._is_safe(name))

    def _is_safe(self, name: Path) -> bool:
        facts = name.stat()
        return name in self._names and self._content.get((facts.st_dev, facts.st_ino)) == facts.st_size

    def gives_name(self, name: Path) -> None:
        """A link or a rename was made."""
        at_risk = self.at_risk() - {name}
        self._names.discard(name)
        self.named.pop(name, None)
        self.named[name] = at_risk

    def syncs(self, handle: int) -> None:
        """A file was synced, or a folder and with it the names in it."""
        facts = os.fstat(handle)
        self._content[facts.st_dev, facts.st_ino] = facts.st_size
        folders = {name.parent: name.parent.stat() for name in self.named if name.parent.is_dir()}
        synced = {at for at, of in folders.items() if (of.st_dev, of.st_ino) == (facts.st_dev, facts.st_ino)}
        self._names |= {name for name in self.named if name.parent in synced}


def watch_disk(monkeypatch: pytest.MonkeyPatch) -> WatchedDisk:
    """Watch this process from here on."""
    disk = WatchedDisk()
    fsync = os.fsync

    def watched_fsync(handle: int) -> None:
        fsync(handle)
        disk.syncs(handle)

    def watched(verb: Any) -> Any:
        def call(source: Any, target: Any, **how: Any) -> None:
            verb(source, target, **how)
            if not how:  # by path and not by a handle of the folder
                disk.gives_name(Path(target))

        return call

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched(os.link))
    monkeypatch.setattr(os, "rename", watched(os.rename))
    return disk
