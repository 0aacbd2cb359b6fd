from collections.abc import Callable
from typing import Any

_Chunk = tuple[int, int, int, int, int]  # start, length, values, codec, physical type
_Bound = bytes | None
_Facts = tuple[int | None, int | None, _Bound, _Bound, _Bound, _Bound]  # values, nulls, bounds, older bounds
_Unpack = Callable[[memoryview, int], Any]

def schema_end(footer: bytes, /) -> int | None: ...
def row_groups(
    footer: bytes, start: int, leaves: tuple[int, ...], columns: int, arrow_schema: bytes | None, /
) -> list[tuple[int, tuple[_Chunk, ...]]] | None: ...
def statistics(
    footer: bytes, leaves: tuple[int, ...], /
) -> tuple[int, list[int], list[tuple[int, tuple[_Facts, ...]]]] | None: ...
def decode(
    chunks: list[tuple[Any, int, int, int, int, _Unpack | None]],
    type_: int,
    optional: int,
    stored: int,
    width: int,
    first: int,
    rows: int,
    room: int,
    mask: Any,
    values: Any,
    valid: Any,
    allocate: Callable[[int], Any],
    truth: bytes | None,
    /,
) -> tuple[int, Any, int]: ...
def dictionary(
    chunks: list[tuple[Any, int, int, int, int, _Unpack | None]], type_: int, stored: int, width: int, /
) -> tuple[int, bytes, bytes | None]: ...
def use_zstd(create: int, destroy: int, unpack: int, /) -> None: ...
