"""What may happen when a codec meets bytes that mean harm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from esker.errors import EskerError


@contextmanager
def fine_or_named(file: str) -> Iterator[None]:
    """The block either works or raises an error of ours that names ``file``; anything else fails the test."""
    try:
        yield
    except EskerError as error:
        if error.facts.get("file") != file:
            raise AssertionError(f"the error does not name {file}: {error}") from error
