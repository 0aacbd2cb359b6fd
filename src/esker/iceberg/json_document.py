"""JSON documents from files: decompressed up to a limit, then read field by field.

All codecs of this package read JSON through this module. So an error about a missing or wrong field always names the
file, the place in it and the field. Fields that are not read are kept (`rest`), so that a writer can write them back
(checklist D11).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from esker.errors import Corrupt

if TYPE_CHECKING:
    import msgspec


# ---------------------------------------------------------------- Decompression with a limit, so that a few bytes
# cannot fill the memory


Codec = Literal["gzip", "lz4", "zstd"]

GZIP_MAGIC = b"\x1f\x8b"


def decompress(file: str, what: str, content: bytes, codec: Codec, *, limit: int) -> bytes:
    """Decompress ``content``. Raises `Corrupt` if it is incomplete, broken or larger than ``limit``."""
    import pyarrow as pa  # late: metadata is rarely compressed, and this import is half of a short command's time

    try:
        stream = pa.input_stream(pa.BufferReader(content), compression=codec)
        plain: bytes = stream.read(limit + 1)
    except (OSError, pa.ArrowException) as error:
        raise Corrupt(file, f"{what} cannot be decompressed as {codec}: {error}") from None
    if len(plain) > limit:
        raise Corrupt(file, f"{what} decompresses to more than {limit:,} bytes")
    if not content:
        raise Corrupt(file, f"{what} is empty where a {codec} frame is expected")
    return plain


# ---------------------------------------------------------------- JSON objects


def decode_json(file: str, content: bytes | bytearray | memoryview | msgspec.Raw, what: str) -> Any:
    """The JSON value in ``content``. Raises `Corrupt` if it is not JSON, not UTF-8 or nested too deeply."""
    return _decode(file, content, what, Any)


def decode_raw_fields(file: str, content: bytes | bytearray | memoryview, what: str) -> dict[str, msgspec.Raw]:
    """The fields of a JSON object as slices of the text, not decoded yet."""
    import msgspec

    fields: dict[str, msgspec.Raw] = _decode(file, content, what, dict[str, msgspec.Raw])
    return fields


def decode_raw_items(file: str, content: bytes | memoryview | msgspec.Raw | None, what: str) -> list[msgspec.Raw]:
    """The items of a JSON array as slices of the text. Empty for a missing array or null."""
    if content is None:
        return []
    import msgspec

    items: list[msgspec.Raw] | None = _decode(file, content, what, list[msgspec.Raw] | None)
    return items or []


def _decode(file: str, content: Any, what: str, kind: Any) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise Corrupt(file, f"{what} is not as expected: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(file, f"{what} is not valid JSON: {error}") from None
    except RecursionError:
        raise Corrupt(file, f"{what} is nested too deeply") from None


class JsonObject:
    """The fields of one JSON object. ``file`` and ``where``, its place in the file, are for error messages."""

    __slots__ = ("_asked", "fields", "file", "where")

    def __init__(self, file: str, where: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise Corrupt(file, f"{where} must be a JSON object, not {_kind(value)}")
        self.file = file
        self.where = where
        self.fields: dict[str, Any] = value
        self._asked: set[str] = set()

    def __contains__(self, name: str) -> bool:
        """Whether the field has a value other than null."""
        return self.fields.get(name) is not None

    def has(self, name: str) -> bool:
        """Whether the field exists, even if it is null."""
        return name in self.fields

    def corrupt(self, reason: str) -> Corrupt:
        """An error that starts with the place of this object."""
        return Corrupt(self.file, f"{self.where}: {reason}" if self.where else reason)

    def raw(self, name: str) -> Any:
        """The decoded value. None if the field is missing."""
        self._asked.add(name)
        return self.fields.get(name)

    def required(self, name: str) -> Any:
        """The value. Raises `Corrupt` if the field is missing."""
        value = self.raw(name)
        if value is None:
            raise self.corrupt(f"{name!r} is missing")
        return value

    def string(self, name: str) -> str:
        """A required string."""
        value = self.required(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a string", value)
        return value

    def string_or_none(self, name: str) -> str | None:
        """An optional string."""
        return self.string(name) if self._present(name) else None

    def integer(self, name: str, *, at_least: int | None = None) -> int:
        """A required whole number."""
        value = self.required(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(name, "a whole number", value)
        if at_least is not None and value < at_least:
            raise self.corrupt(f"{name!r} must be at least {at_least}, not {value}")
        return value

    def integer_or_none(self, name: str, *, at_least: int | None = None) -> int | None:
        """An optional whole number."""
        return self.integer(name, at_least=at_least) if self._present(name) else None

    def boolean(self, name: str) -> bool:
        """A required true or false."""
        value = self.required(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def items(self, name: str) -> list[Any]:
        """A required array."""
        value = self.required(name)
        if not isinstance(value, list):
            raise self._wrong(name, "an array", value)
        return value

    def items_or_none(self, name: str) -> list[Any] | None:
        """An optional array."""
        return self.items(name) if self._present(name) else None

    def integers(self, name: str) -> tuple[int, ...]:
        """An array of whole numbers. Empty if the field is missing."""
        values = self.items_or_none(name) or []
        for value in values:
            if not isinstance(value, int) or isinstance(value, bool):
                raise self._wrong(name, "an array of whole numbers", value)
        return tuple(values)

    def object(self, name: str) -> JsonObject:
        """A required object."""
        return JsonObject(self.file, self._inside(repr(name)), self.required(name))

    def object_or_none(self, name: str) -> JsonObject | None:
        """An optional object."""
        return self.object(name) if self._present(name) else None

    def objects(self, name: str, singular: str) -> Iterator[JsonObject]:
        """The objects of an array. Errors name each as ``singular`` with its number. Empty if the field is missing."""
        for number, value in enumerate(self.items_or_none(name) or ()):
            yield JsonObject(self.file, self._inside(f"{singular} {number}"), value)

    def strings(self, name: str) -> dict[str, str]:
        """An object whose values are strings. Empty if the field is missing."""
        value = self.raw(name)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise self._wrong(name, "an object of strings", value)
        return value

    def rest(self) -> dict[str, Any]:
        """The fields that were not read, unchanged."""
        return {name: value for name, value in self.fields.items() if name not in self._asked}

    def _inside(self, place: str) -> str:
        return f"{place} of {self.where}" if self.where else place

    def _present(self, name: str) -> bool:
        self._asked.add(name)
        return self.fields.get(name) is not None

    def _wrong(self, name: str, expected: str, value: Any) -> Corrupt:
        return self.corrupt(f"{name!r} must be {expected}, not {_kind(value)}")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            text = repr(value)
            return text if len(text) <= 60 else text[:60] + "…"
