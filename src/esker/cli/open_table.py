"""Opens the table, view or catalog that was named on the command line, and finds the snapshot that was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from esker.cli.shared_options import Settings, current_settings

if TYPE_CHECKING:
    from esker.lake import Lake
    from esker.metadata_tables.inspect import Inspect
    from esker.ports.storage import Storage
    from esker.table import Table
    from esker.tree.snapshot import Snapshot
    from esker.view import View


def looks_like_path(text: str) -> bool:
    """Whether a TABLE argument is a path and not a name in a catalog."""
    if "/" in text or os.sep in text or text in (".", "..") or text.endswith((".json", ".json.gz")):
        return True
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def open_named(text: str) -> Table:
    """Return the table of a TABLE argument. Raises ``NoSuchTable``."""
    if looks_like_path(text):
        from esker.wiring import open_table

        settings = current_settings()
        return open_table(text, allowed_roots=settings.allowed_roots, properties=settings.properties)
    return open_lake(current_settings()).table(text)


def open_table_or_view(text: str) -> Table | View:
    """Return the table or view of an argument. Raises ``NoSuchTable`` if there is neither."""
    from esker.errors import NoSuchTable

    try:
        return open_named(text)
    except NoSuchTable as error:
        if error.facts.get("there") != "view":
            raise
    return open_lake(current_settings()).view(text)


def open_to_change(text: str) -> Table:
    """Return the table of a TABLE argument, to change it. Raises ``InvalidInput`` for the path of an Iceberg table: it
    has no catalog. A table of another format commits by itself, so its path is enough."""
    from esker.errors import InvalidInput

    if "/" in text or os.sep in text or text.endswith((".json", ".json.gz")):
        if (found := _other_table_at(text)) is not None:
            return found
        raise InvalidInput(
            f"cannot change {text}: a table opened by its path is read-only; "
            "add it to a catalog with: esker register NAME METADATA_FILE",
            path=text,
        )
    return open_lake(current_settings()).table(text)


def open_iceberg_to_change(text: str, verb: str) -> Table:
    """Return the Iceberg table of a TABLE argument, to change it. Raises ``Unsupported`` with the verb for another
    format, before a plan is shown that could not be done."""
    from esker.errors import Unsupported

    found = open_to_change(text)
    if is_of_other_format(found):
        raise Unsupported(f"cannot {verb} {text}: {text} is a table of another format than Iceberg", feature=verb)
    return found


def is_of_other_format(table: Table) -> bool:
    """Whether the table is no Iceberg table."""
    from esker.formats.other_table import OtherTable

    return isinstance(table, OtherTable)


def _other_table_at(path: str) -> Table | None:
    from esker.errors import EskerError

    try:
        found = open_named(path)
    except EskerError:
        return None  # it is refused as a path, whatever is there
    return found if is_of_other_format(found) else None


def open_lake(settings: Settings, *, trusted_views: bool | Iterable[str] = False, may_make: bool = False) -> Lake:
    """Return the lake of the catalog that was asked for.

    Raises ``NoSuchFile`` if a catalog was named that does not exist: the name may be a typo. Commands that create a
    lake on first use set ``may_make``.
    """
    from esker.wiring import connect

    return connect(
        settings.catalog,
        warehouse=settings.warehouse,
        allowed_roots=settings.allowed_roots,
        trusted_views=trusted_views,
        must_exist=settings.catalog is not None and not may_make,
        properties=settings.properties or None,
    )


def common_tables(table: Table) -> Inspect:
    """The metadata tables with Iceberg's columns, for a table of any format."""
    from esker.metadata_tables.inspect import Inspect

    return Inspect(
        metadata=table.metadata,
        metadata_location=table.metadata_location,
        table_format=table._workings.format,
        engine=table._workings.engine,
    )


def merges_rows(table: Table) -> bool:
    """Whether files have versions of rows, so that only a scan can count rows."""
    from esker.ports.table_format import MergesRows

    found = table._workings.format
    return isinstance(found, MergesRows) and found.merge_rule(table.metadata, table.schema) is not None


def storage_of(table: Table) -> Storage:
    """The storage of the table's files, to read their sizes."""
    return table._workings.storage


def chosen_snapshot(table: Table, snapshot_id: int | None, as_of: str | None, ref: str | None) -> Snapshot | None:
    """The snapshot that the options select, by default the current one; None if the table has no snapshot."""
    from esker.read.resolve_snapshot import resolve_snapshot

    return resolve_snapshot(table.metadata, snapshot_id=snapshot_id, as_of=as_of, ref=ref).snapshot


def snapshot_named(table: Table, text: str) -> Snapshot | None:
    """Return the first snapshot that matches the text as an id, branch, tag, ``current`` or time.

    Raises ``NoSuchSnapshot`` if none does.
    """
    from esker.errors import InvalidInput, NoSuchSnapshot
    from esker.read.resolve_snapshot import resolve_snapshot

    metadata = table.metadata
    if text in metadata.refs or text == "main":
        return resolve_snapshot(metadata, ref=text).snapshot
    if text == "current":
        return resolve_snapshot(metadata).snapshot
    if text.lstrip("-").isdigit() and metadata.snapshot(int(text)) is not None:
        return metadata.snapshot(int(text))
    try:
        return resolve_snapshot(metadata, as_of=text).snapshot
    except InvalidInput as error:
        if text.lstrip("-").isdigit():
            return resolve_snapshot(metadata, snapshot_id=int(text)).snapshot
        try:
            return resolve_snapshot(metadata, ref=text).snapshot
        except NoSuchSnapshot as missing:
            raise NoSuchSnapshot(
                missing.message.replace("no branch or tag", "no snapshot, branch, tag or time", 1), **missing.facts
            ) from error


def relative_path(path: str, location: str) -> str:
    """A file's path relative to the table."""
    base = location.rstrip("/") + "/"
    return path.removeprefix(base)
