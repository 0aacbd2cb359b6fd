"""Nessie: where it differs from the protocol, and how a commit to it is made safe.

Nessie has versions of the whole catalog. Its tables have no history of their own: their metadata names the newest
snapshot alone, without its parent. Nessie does not check that a ref is absent (``assert-ref-snapshot-id`` with null):
of two first snapshots it accepts both, and the first one is lost.

Each answer names the version of the catalog, in the table property ``nessie.commit.id``. A change that is addressed to
that version (``main@ID``) is refused if the table has changed since. So Esker addresses every commit this way: Nessie
then compares the whole table.

Nessie reports success for changes that it does not make: of branches and tags of a table, of its location, of the
retention of main. A snapshot for another branch becomes the current one. Other changes fail with status 500. Esker
refuses all of these before anything is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from esker.catalogs.rest.settings import RestSettings
from esker.errors import InvalidInput, Unsupported
from esker.model.table_names import TableName
from esker.ports.catalog import TableState, ViewState
from esker.tree.table_metadata import TableMetadata

LONGEST_WALK = 200  # versions of the catalog that are looked at after a lost answer
_COMMIT = "nessie.commit.id"
_OWN = "nessie."
_WAREHOUSE = re.compile(r"\||%7C", re.IGNORECASE)
_NOT_OFFERED = {  # updates that Nessie 0.99 ignores or fails at
    "remove-snapshots": "removing snapshots: it keeps the newest one only",
    "set-location": "moving a table",
    "upgrade-format-version": "changing the format version of a table",
    "remove-partition-specs": "removing partition specs",
    "remove-schemas": "removing schemas",
    "add-encryption-key": "encryption keys",
    "remove-encryption-key": "encryption keys",
}


def is_nessie(settings: RestSettings) -> bool:
    """Whether the server says that it is a Nessie."""
    return settings.flag("nessie.is-nessie-catalog")


def check_name(name: TableName) -> None:
    """``InvalidInput`` for a name that Nessie reads as a table on another branch or at another time."""
    if any(sign in name.name for sign in "@#"):
        raise InvalidInput(
            f"cannot use {name.name!r} as a name: Nessie reads what follows @ or # as a branch, a tag or a time; "
            "to use another branch, open the lake with the property prefix"
        )


def check_updates(name: TableName, updates: Iterable[Mapping[str, Any]]) -> None:
    """``Unsupported`` for a change of a table that Nessie ignores or fails at. Nothing was sent."""
    for update in updates:
        action, ref = update["action"], update.get("ref-name")
        why = _NOT_OFFERED.get(action)
        if ref is not None and (ref != "main" or action == "remove-snapshot-ref"):
            why = "branches and tags of a table; use a branch of Nessie"
        elif ref is not None and not update.keys() <= {"action", "ref-name", "type", "snapshot-id"}:
            why = "a retention of snapshots"
        if why is not None:
            raise Unsupported(
                f"cannot commit to {name}: Nessie does not support {why}; nothing was changed",
                feature=f"{action} on Nessie",
            )


# ---------------------------------------------------------------- properties


def users_own(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without those that Nessie adds to its answers."""
    return {name: value for name, value in properties.items() if not name.startswith(_OWN) and name != "gc.enabled"}


def keep_own(base: TableMetadata, new: TableMetadata) -> TableMetadata:
    """The new version with Nessie's own properties as they were: no commit changes them."""
    theirs = {name: value for name, value in base.properties.items() if name.startswith(_OWN)}
    users = {name: value for name, value in new.properties.items() if not name.startswith(_OWN)}
    return replace(new, properties={**users, **theirs})


def commit_id(properties: Mapping[str, str]) -> str | None:
    """The version of the catalog that an answer names among the properties of a table or a view."""
    return properties.get(_COMMIT)


def required_commit_id(properties: Mapping[str, str], what: str) -> str:
    """The same; ``Unsupported`` where the answer names none, since a commit would then overwrite others."""
    found = commit_id(properties)
    if found is None:
        raise Unsupported(
            f"cannot commit to {what}: this Nessie does not name the version of the catalog ({_COMMIT}), "
            "so that two commits could overwrite each other; use a newer Nessie",
            feature="commits to a Nessie without versions",
        )
    return found


# ---------------------------------------------------------------- versions of the catalog


def prefix_at(prefix: str, version: str) -> str:
    """The prefix of addresses that mean the catalog at a version: ``main|warehouse`` becomes ``main@ID|warehouse``."""
    found = _WAREHOUSE.search(prefix)
    cut = len(prefix) if found is None else found.start()
    return f"{prefix[:cut]}@{quote(version)}{prefix[cut:]}"


def is_address(state: TableState | ViewState) -> bool:
    """Whether the location of a version is an address of Nessie's own, with which it answers a commit."""
    return state.metadata_location.startswith(("http:", "https:"))


def is_same(one: TableState, other: TableState) -> bool:
    """Whether both are one version of a table. One of them may have Nessie's address in place of the file."""
    if one.metadata_location == other.metadata_location:
        return True
    return (is_address(one) or is_address(other)) and _facts(one.metadata) == _facts(other.metadata)


def _facts(metadata: TableMetadata) -> tuple[object, ...]:
    return (
        *(metadata.uuid, metadata.last_updated_ms, metadata.last_sequence_number, metadata.all_refs),
        *(metadata.current_schema_id, metadata.default_spec_id, metadata.default_sort_order_id),
        users_own(metadata.properties),
    )


def is_in_history(
    now: TableState,
    *,
    is_ours: Callable[[TableState], bool],
    is_base: Callable[[TableState], bool],
    load_at: Callable[[str], TableState | None],
) -> bool | None:
    """Whether a commit that was addressed to ``base`` is among the versions of the table since; None if that is
    uncertain. ``load_at`` loads the table at a version of the catalog."""
    newest = commit_id(now.metadata.properties)
    if is_ours(now):
        return True
    if newest is None or is_base(now):  # a late commit can still apply
        return None
    for step in range(1, LONGEST_WALK + 1):
        before = load_at(f"{newest}~{step}")
        if before is None:
            return None
        if is_ours(before):
            return True
        if is_base(before):
            return False
    return None
