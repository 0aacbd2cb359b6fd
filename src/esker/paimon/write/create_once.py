"""Whether a store creates an object once. Commits depend on it, and some stores ignore the condition."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

from esker.errors import AlreadyExists, EskerError, Unsupported
from esker.ports.storage import RemoteStorage, Storage


def check_creates_once(storage: Storage, root: str, own: str, data: bytes) -> None:
    """Create an object again that this process has just created with the same bytes. Nothing is done for files on this
    machine.

    Raises ``Unsupported`` if the store lets it, because then two writers could both win.
    """
    if not isinstance(storage, RemoteStorage):
        return
    try:
        storage.write_new(own, data)
    except AlreadyExists:
        return
    raise Unsupported(
        f"cannot write to {root}: the store ignores the condition If-None-Match, so two writers could both win; use "
        "a store that knows it",
        feature="conditional create",
        location=root,
    )


def check_store(storage: Storage, root: str) -> None:
    """The same for a place where this process has created nothing yet, by an object that is deleted again."""
    if not isinstance(storage, RemoteStorage):
        return
    probe = f"{root}/schema/.esker-probe-{uuid4().hex}"
    storage.write_new(probe, b"")
    try:
        check_creates_once(storage, root, probe, b"")
    finally:
        with suppress(EskerError):
            storage.delete(probe)
