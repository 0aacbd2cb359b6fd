"""Where the files of a Paimon table are, and which snapshot and schema are the newest."""

from __future__ import annotations

import re
from dataclasses import dataclass

from esker.errors import NoSuchFile
from esker.ports.storage import Storage

MAIN = "main"
_NUMBER = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of one table. Branches have schemas, snapshots and tags of their own; all other files are shared."""

    root: str  # the table's directory, without a slash at its end
    branch: str = MAIN

    @property
    def own(self) -> str:
        """The directory of the branch's schemas, snapshots and tags."""
        return self.root if self.branch == MAIN else f"{self.root}/branch/branch-{self.branch}"

    def schema(self, id_: int) -> str:
        """The file of a schema."""
        return f"{self.own}/schema/schema-{id_}"

    def snapshot(self, id_: int) -> str:
        """The file of a snapshot."""
        return f"{self.own}/snapshot/snapshot-{id_}"

    def hint(self, name: str) -> str:
        """The file ``LATEST`` or ``EARLIEST``."""
        return f"{self.own}/snapshot/{name}"

    def tag(self, name: str) -> str:
        """The file of a tag."""
        return f"{self.own}/tag/tag-{name}"

    def manifest(self, name: str) -> str:
        """A manifest, manifest list or index manifest."""
        return f"{self.root}/manifest/{name}"

    def index(self, name: str) -> str:
        """An index file."""
        return f"{self.root}/index/{name}"

    def bucket(self, partition_path: str, bucket: int) -> str:
        """The directory of a bucket. ``partition_path`` is empty or ends with a slash."""
        return f"{self.root}/{partition_path}bucket-{'postpone' if bucket == -2 else bucket}"

    def on(self, branch: str) -> Layout:
        """The same table on another branch."""
        return Layout(self.root, branch)


def numbered(storage: Storage, folder: str, prefix: str) -> list[int]:
    """The numbers of the files ``<folder>/<prefix><number>``, sorted."""
    names = (file.location.rpartition("/")[2] for file in storage.list(folder))
    ends = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return sorted({int(end) for end in ends if _NUMBER.fullmatch(end)})


def named(storage: Storage, folder: str, prefix: str) -> list[str]:
    """The names of the files ``<folder>/<prefix><name>``, sorted."""
    found = (file.location.rpartition("/")[2] for file in storage.list(folder))
    return sorted({name.removeprefix(prefix) for name in found if name.startswith(prefix)})


def branches(storage: Storage, root: str) -> list[str]:
    """The names of the branches besides main, sorted. A branch has a schema."""
    found = set()
    for file in storage.list(f"{root}/branch"):
        at = file.location.find("/branch/branch-")
        rest = file.location[at + len("/branch/branch-") :] if at >= 0 else ""
        name, _, below = rest.partition("/")
        if name and below.startswith("schema/schema-"):
            found.add(name)
    return sorted(found)


def latest_snapshot(storage: Storage, layout: Layout) -> int | None:
    """The number of the newest snapshot; None if there is none.

    The hint is believed if its snapshot exists and the next one does not. It may be old, empty or absent.
    """
    try:
        hint = storage.read(layout.hint("LATEST")).decode("ascii", "replace").strip()
    except NoSuchFile:
        hint = ""
    if _NUMBER.fullmatch(hint):
        number = int(hint)
        if storage.exists(layout.snapshot(number)) and not storage.exists(layout.snapshot(number + 1)):
            return number
    found = numbered(storage, f"{layout.own}/snapshot", "snapshot-")
    return found[-1] if found else None
