"""Credentials for storage that a catalog hands out, each for the files below a prefix and for a limited time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCredentials:
    """Settings, secrets among them, for the files below ``prefix``. The longest prefix of a location applies.

    ``config`` has the property names of PyIceberg and Java: ``s3.access-key-id``, ``gcs.oauth2.token`` and so on. It
    is never shown.
    """

    prefix: str
    config: Mapping[str, str] = field(repr=False)
    expires_at_ms: int | None = None  # None: what ``config`` says of it, or never


Refresh: TypeAlias = Callable[[], Sequence[StorageCredentials]]
"""Asks the catalog for new credentials, before the old ones expire. It travels to workers if it can be pickled."""
