"""Primitive types by the words of SQL: Spark's names, and Iceberg's where Spark has none.

``timestamp`` is Spark's: an instant, Iceberg's ``timestamptz``. The reading without a zone is ``timestamp_ntz``.
"""

from __future__ import annotations

from collections.abc import Sequence

from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    PrimitiveType,
)

MAX_PRECISION = 38
LARGEST_FIXED = (1 << 31) - 1
DEFAULT_CRS = "OGC:CRS84"
EDGE_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")

PLAIN: dict[str, PrimitiveType] = {
    "boolean": BOOLEAN,
    "tinyint": INT,  # Iceberg has no narrower integer; Spark reads the column back as int
    "byte": INT,
    "smallint": INT,
    "short": INT,
    "int": INT,
    "integer": INT,
    "bigint": LONG,
    "long": LONG,
    "float": FLOAT,
    "real": FLOAT,
    "double": DOUBLE,
    "date": DATE,
    "time": TIME,
    "timestamp": TIMESTAMPTZ,
    "timestamp_ltz": TIMESTAMPTZ,
    "timestamptz": TIMESTAMPTZ,
    "timestamp_ntz": TIMESTAMP,
    "timestamp_ns": TIMESTAMP_NS,
    "timestamptz_ns": TIMESTAMPTZ_NS,
    "string": STRING,
    "uuid": UUID,
    "binary": BINARY,
    "unknown": UNKNOWN,
    "void": UNKNOWN,
    "variant": VARIANT,
    "geometry": GeometryType(),
    "geography": GeographyType(),
    "decimal": DecimalType(10, 0),  # Spark's default
    "dec": DecimalType(10, 0),
    "numeric": DecimalType(10, 0),
}


def primitive_named(word: str, parameters: Sequence[str] = ()) -> PrimitiveType:
    """The type of that name and those parameters; ``ValueError`` says what is wrong with them."""
    name = word.lower()
    match name, tuple(parameters):
        case _, () if name in PLAIN:
            return PLAIN[name]
        case (("decimal" | "dec" | "numeric"), (precision,)):
            return _decimal(precision, "0")
        case (("decimal" | "dec" | "numeric"), (precision, scale)):
            return _decimal(precision, scale)
        case "fixed", (length,):
            return FixedType(_whole(length, 1, LARGEST_FIXED, "the length of a fixed"))
        case (("varchar" | "char"), (length,)):  # Iceberg does not bound the length of text, nor do its engines
            _whole(length, 1, LARGEST_FIXED, f"the length of a {name}")
            return STRING
        case "time", (precision,) if precision.strip() in ("0", "1", "2", "3", "4", "5", "6"):
            return TIME
        case "geometry", (crs,):
            return GeometryType(_crs(crs))
        case "geography", (crs,):
            return GeographyType(_crs(crs))
        case "geography", (crs, algorithm):
            return GeographyType(_crs(crs), _algorithm(algorithm))
        case _, () if name in ("fixed", "varchar", "char"):
            raise ValueError(f"{name} needs a length: {name}(16)")
        case _, _ if name in PLAIN or name in ("fixed", "varchar", "char"):
            raise ValueError(f"{name} does not take the parameters ({', '.join(parameters)})")
        case _:
            raise ValueError(f"there is no type {word!r}")


def _decimal(precision: str, scale: str) -> DecimalType:
    digits = _whole(precision, 1, MAX_PRECISION, "the precision of a decimal")
    return DecimalType(digits, _whole(scale, 0, digits, "the scale of a decimal"))


def _whole(text: str, least: int, most: int, what: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 12 and least <= int(digits) <= most):
        raise ValueError(f"{what} is from {least} to {most}, not {text}")
    return int(digits)


def _crs(text: str) -> str | None:
    crs = text.strip()
    return None if not crs or crs.lower() == DEFAULT_CRS.lower() else crs


def _algorithm(text: str) -> str | None:
    name = text.strip().lower()
    if name not in EDGE_ALGORITHMS:
        raise ValueError(f"the edges of a geography are {', '.join(EDGE_ALGORITHMS)}, not {text.strip()}")
    return None if name == "spherical" else name
