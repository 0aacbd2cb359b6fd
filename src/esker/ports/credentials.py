"""Credentials for storage that a catalog hands out, each for the files below a prefix and for a limited time; and
signatures, where the catalog keeps its credentials and signs each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


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


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request that was signed: its address, and the headers that prove it. They are secrets for a while."""

    uri: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


class Signer(Protocol):
    """Signs requests to a store. It travels to workers, so it can be pickled."""

    def sign(
        self, method: str, uri: str, headers: Mapping[str, str], *, region: str, fresh: bool = False
    ) -> SignedRequest:
        """The signed request. ``fresh`` asks for a new signature although one is kept."""
        ...
