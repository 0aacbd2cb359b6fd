"""The table properties that steer commits: read strictly, so that a typing error is not taken for a wish."""

from __future__ import annotations

from collections.abc import Mapping

from esker.errors import InvalidInput


def whole_number(properties: Mapping[str, str], key: str, default: int, *, at_least: int = 0) -> int:
    """A whole number; ``InvalidInput`` names a property that holds none."""
    text = properties.get(key)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = at_least - 1
    if number < at_least:
        raise InvalidInput(f"cannot use {key} = {text!r}: it takes a whole number from {at_least}", property=key)
    return number


def switch(properties: Mapping[str, str], key: str, *, default: bool) -> bool:
    """true or false; ``InvalidInput`` names a property that is neither."""
    text = properties.get(key)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise InvalidInput(f"cannot use {key} = {text!r}: it takes true or false", property=key)
    return text.strip().lower() == "true"
