"""How a table wants its rows changed: the mode and the isolation level of each verb."""

from __future__ import annotations

from esker.errors import InvalidInput
from esker.ports.row_changes import Mode, Verb
from esker.tree.table_metadata import TableMetadata


def mode_of(metadata: TableMetadata, verb: Verb) -> Mode:
    """``write.<verb>.mode``; copy-on-write by default, and always in v1, which has no deletes."""
    key = f"write.{verb}.mode"
    text = metadata.properties.get(key, Mode.COPY_ON_WRITE.value).strip().lower()
    if text not in (Mode.COPY_ON_WRITE.value, Mode.MERGE_ON_READ.value):
        raise InvalidInput(f"cannot use {key} = {text!r}: it takes copy-on-write or merge-on-read", property=key)
    return Mode.COPY_ON_WRITE if metadata.format_version == 1 else Mode(text)


def deletes_are_per_file(metadata: TableMetadata) -> bool:
    """Whether all deletes of a data file are in one delete file: vectors do (v3), and position delete files unless
    ``write.delete.granularity`` asks for one per partition."""
    key = "write.delete.granularity"
    text = metadata.properties.get(key, "file").strip().lower()
    if text not in ("file", "partition"):
        raise InvalidInput(f"cannot use {key} = {text!r}: it takes file or partition", property=key)
    return text == "file" or metadata.format_version > 2


def isolation_property(verb: Verb) -> str:
    """The property that holds a verb's isolation level."""
    return f"write.{verb}.isolation-level"


def is_serializable(metadata: TableMetadata, verb: Verb) -> bool:
    """Whether rows that arrive where a change looked are a conflict; else only changes of the same files are."""
    key = isolation_property(verb)
    level = metadata.properties.get(key, "serializable").strip().lower()
    if level not in ("serializable", "snapshot"):
        raise InvalidInput(f"cannot use {key} = {level!r}: it takes serializable or snapshot", property=key)
    return level == "serializable"
