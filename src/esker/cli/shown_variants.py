"""Variants as people read them: what is in them, not the bytes they are kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_PARTS = ("metadata: binary not null", "value: binary not null")
_SPELT = tuple(f"struct<{one}, {other}>" for one, other in (_PARTS, _PARTS[::-1]))  # ours, and Spark's


def type_text(type_: pa.DataType) -> str:
    """An Arrow type in words, variants by their name."""
    text = str(type_)
    for spelt in _SPELT:
        text = text.replace(spelt, "variant")
    return text


def shown_variants(type_: pa.DataType, values: list[Any]) -> list[Any]:
    """Values of a column with the variants among them read, at every depth."""
    return [_shown(type_, value) for value in values] if any(spelt in str(type_) for spelt in _SPELT) else values


def _shown(type_: pa.DataType, value: Any) -> Any:
    import pyarrow as pa

    if value is None:
        return None
    if str(type_) in _SPELT:
        return _read(value)
    if pa.types.is_struct(type_):
        return {field.name: _shown(field.type, value[field.name]) for field in type_}
    if pa.types.is_map(type_):
        return [(key, _shown(type_.item_type, item)) for key, item in value]
    if pa.types.is_list(type_):
        return [_shown(type_.value_type, item) for item in value]
    return value


def _read(value: dict[str, bytes]) -> Any:
    from esker.errors import InvalidInput
    from esker.model.variant import decode

    try:
        return _worded(decode(value["metadata"], value["value"]))
    except InvalidInput:  # then its bytes are all that there is to show
        return value


def _worded(value: Any) -> Any:
    """With the times that Python has no types for as texts."""
    from esker.model.variant import Moment
    from esker.model.variant_text import moment_text

    match value:
        case Moment():
            return moment_text(value)
        case list():
            return [_worded(item) for item in value]
        case dict():
            return {key: _worded(item) for key, item in value.items()}
        case _:
            return value
