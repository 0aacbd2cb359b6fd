"""Partition directories: ``k1=v1/k2=v2/``, as Java spells them and as pypaimon 2.0 did.

Values are never taken from a path: null, empty and blank texts have the same directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from esker.model.transform import civil_month, days_from_month
from esker.paimon.metadata.types import DataField, DataType

DEFAULT_NAME = "__DEFAULT_PARTITION__"
_ESCAPED = frozenset(chr(code) for code in (*range(1, 0x20), 0x7F)) | frozenset("\"#%'*/:=?\\{}[]^")


def partition_path(fields: Sequence[DataField], values: Sequence[Any], options: Mapping[str, str]) -> str:
    """The directory of a partition, with a slash at its end; empty for a table without partitions.

    Values are in the held form.
    """
    default = options.get("partition.default-name", DEFAULT_NAME)
    legacy = options.get("partition.legacy-name", "true").strip().lower() != "false"
    parts = []
    for field, value in zip(fields, values, strict=True):
        text = "" if value is None else _text(field.type, value, legacy=legacy)
        parts.append(f"{escape(field.name)}={escape(text) if text.strip() else escape(default)}/")
    return "".join(parts)


def other_partition_paths(
    fields: Sequence[DataField], values: Sequence[Any], options: Mapping[str, str]
) -> tuple[str, ...]:
    """The directories that pypaimon used instead: up to 2.0 Python's text of the value, not escaped; for binary values
    also that text escaped. Without those that are equal to the right one."""
    default = options.get("partition.default-name", DEFAULT_NAME)
    right = partition_path(fields, values, options)
    texts = [
        (field.name, default if value is None else _python_text(field.type, value))
        for field, value in zip(fields, values, strict=True)
    ]
    plain = "".join(f"{name}={text if text.strip() else default}/" for name, text in texts)
    escaped = "".join(f"{escape(name)}={escape(text if text.strip() else default)}/" for name, text in texts)
    return tuple(path for path in dict.fromkeys((escaped, plain)) if path != right)


def escape(text: str) -> str:
    """The text with ``%XX`` for the characters that a directory name may not have."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def _text(type_: DataType, value: Any, *, legacy: bool) -> str:
    match type_.root:
        case "BOOLEAN":
            return "true" if value else "false"
        case "DATE":
            return str(value) if legacy else _date(value)
        case "TIME":
            return str(value // 1000) if legacy else _sql_time(value // 1000, type_.digits)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _timestamp(type_, value, legacy=legacy)
        case "FLOAT" | "DOUBLE":
            return java_double(np.float32(value) if type_.root == "FLOAT" else np.float64(value))
        case "DECIMAL":
            return f"{Decimal(value):f}"
        case "BINARY" | "VARBINARY":
            return value.decode("utf-8", "replace")
        case _:
            return str(value)


def _date(days: int) -> str:
    year, month = civil_month(days)
    day = days - days_from_month((year - 1970) * 12 + month - 1) + 1
    return f"{year:04}-{month:02}-{day:02}"


def _timestamp(type_: DataType, value: int, *, legacy: bool) -> str:
    nanos = value if type_.digits > 6 else value * 1000
    days, rest = divmod(nanos, 86_400 * 10**9)
    if legacy:  # Java's LocalDateTime: seconds and fraction only if needed, in groups of three digits
        return f"{_date(days)}T{_local_time(rest)}"
    return f"{_date(days)} {_time(rest, type_.digits)}"


def _local_time(nanos: int) -> str:
    seconds, fraction = divmod(nanos, 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if seconds % 60 or fraction:
        text += f":{seconds % 60:02}"
    for digits in (3, 6, 9):
        if fraction and fraction % 10 ** (9 - digits) == 0:
            return f"{text}.{fraction // 10 ** (9 - digits):0{digits}}"
    return text


def _time(nanos: int, digits: int) -> str:
    seconds, fraction = divmod(nanos, 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text if not digits else f"{text}.{fraction // 10 ** (9 - digits):0{digits}}"


def _sql_time(millis: int, digits: int) -> str:
    """The text of a cast: up to three digits of a second, without zeros at the end but the first."""
    seconds, rest = divmod(millis, 1000)
    fraction = f"{rest:03}"[:digits]
    return f"{_time(seconds * 10**9, 0)}.{fraction.rstrip('0') or '0'}" if digits else _time(seconds * 10**9, 0)


def java_double(value: np.floating[Any]) -> str:
    """The text of Java's ``Double.toString`` or ``Float.toString``."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if np.signbit(value) else "0.0"
    if 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(value, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"


def _python_text(type_: DataType, value: Any) -> str:
    match type_.root:
        case "BOOLEAN":
            return str(bool(value))
        case "DATE":
            return _date(value)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            nanos = value if type_.digits > 6 else value * 1000
            days, rest = divmod(nanos, 86_400 * 10**9)
            micros = rest % 10**9 // 1000
            return f"{_date(days)} {_time(rest, 6 if micros else 0)}"
        case "TIME":
            return _time(value * 1000, 6 if value % 1_000_000 else 0)
        case "BINARY" | "VARBINARY":
            return str(bytes(value))
        case _:
            return str(value)
