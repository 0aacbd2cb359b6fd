"""Where an ingest keeps its checkpoint when nobody says: beside the lake's catalog."""

from __future__ import annotations

from pathlib import Path

from esker.catalogs.open import scheme_of, sqlite_file
from esker.errors import InvalidInput
from esker.lake import Lake


def lake_folder(lake: Lake) -> Path | None:
    """The directory that belongs to the lake on this machine; None where it has none."""
    uri = "" if lake.address is None else str(lake.address["uri"])
    match scheme_of(uri) if uri else None:
        case "sqlite":
            return sqlite_file(uri)[0].parent
        case "file":
            folder = Path(uri)
            return folder.with_name(f"{folder.name}.ingest")  # beside it: below it, folders are namespaces
        case _:
            return None


def default_checkpoint(lake: Lake, kind: str) -> Path:
    """Where the checkpoint of such an ingest lies."""
    folder = lake_folder(lake)
    if folder is None:
        raise InvalidInput(
            "cannot tell where to keep the checkpoint of this ingest: name a directory with --checkpoint"
        )
    return folder / "ingest" / kind


def default_spool(lake: Lake) -> Path | None:
    """Where ``esker receive`` keeps requests of this lake unless told otherwise."""
    folder = lake_folder(lake)
    return None if folder is None else folder / "spool"
