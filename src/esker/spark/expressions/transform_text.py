"""Iceberg's transforms as text of Spark SQL, exact for every type that they accept.

Only Spark knows the type of an argument, so the text asks for it. ``typeof`` is a constant once the query is analysed,
and the optimizer keeps only the branch that it selects. Every branch must be valid for any argument. So an argument is
converted to text where no function accepts all types.

Spark's ``hash`` is Murmur3 like Iceberg's, except for its seed and for the bytes after the last full word. A value that
hashes to 0, put before the argument, makes the seed 0. If bytes are left, the last step of the hash is undone, the
bytes are mixed in as Murmur3 does it, and the step is done again. Integers have 64 bits here and never overflow, with
any value of ``spark.sql.ansi.enabled``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

REFUSED = "cannot compute system."  # the start of the error message if a function does not accept a type

_SEED_ZERO = -1693959553  # hash(_SEED_ZERO) is 0
_WORD = 0xFFFFFFFF
_MICROS_PER_HOUR = 3_600_000_000
_MICROS_PER_DAY = 24 * _MICROS_PER_HOUR
_SMALL = "'tinyint', 'smallint', 'int'"


def transform_text(name: str, size: int, argument: str) -> str:
    """Return an expression for the transform of any argument. The argument is computed once."""
    return _let("esker_c", argument, _body(name, size, "esker_c"))


def plain_transform_text(name: str, size: int, column: str) -> str:
    """Return the same for a column or literal, which may be repeated. Spark generates better code for it."""
    return _body(name, size, column)


def bucket_column(column: Column, buckets: int) -> Column:
    """The bucket of a column."""
    from pyspark.sql import functions as F  # noqa: N812  # as every PySpark program calls it

    made = F.call_function("transform", F.array(column), F.expr(f"esker_c -> {_body('bucket', buckets, 'esker_c')}"))
    return F.get(made, F.lit(0))


def _body(name: str, size: int, c: str) -> str:
    match name:
        case "bucket":
            return f"CAST(({_hash(c)} & 2147483647) % {size} AS INT)"
        case "truncate":
            return _truncate(size, c)
        case _:
            return _time(name, c)


def _let(name: str, value: str, body: str) -> str:
    """Return the body with a name for a value. A lambda is the only way to do this in an expression."""
    return f"get(transform(array({value}), {name} -> {body}), 0)"


def _refusal(name: str, c: str, expected: str) -> str:
    return f"raise_error(concat('{REFUSED}{name} of ', typeof({c}), ': expected {expected}'))"


def _is_text(c: str) -> str:
    """Return a test for text, with or without a collation or a length."""
    return f"typeof({c}) RLIKE '^(string|char|varchar)'"


def _time(name: str, c: str) -> str:
    """Return the transform of a time. An instant is counted in UTC, a time without zone as it is."""
    kinds = ("timestamp",) if name == "hours" else ("date", "timestamp")
    instant = _instant(name, c)
    other = {
        "years": f"year({c}) - 1970",
        "months": f"(year({c}) - 1970) * 12 + month({c}) - 1",
        "days": f"CAST({c} AS DATE)",
        "hours": f"unix_date(CAST({c} AS DATE)) * 24 + hour({c})",
    }[name]
    plain = "'timestamp_ntz'" if name == "hours" else "'date', 'timestamp_ntz'"
    return (
        f"CASE WHEN typeof({c}) = 'timestamp' THEN {instant} WHEN typeof({c}) IN ({plain}) THEN {other} "
        f"ELSE {_refusal(name, c, ' or '.join(kinds))} END"
    )


def _instant(name: str, c: str) -> str:
    micros = f"unix_micros(CAST({c} AS TIMESTAMP))"
    if name == "hours":
        return f"CAST({_floor_div(micros, _MICROS_PER_HOUR)} AS INT)"
    day = f"date_from_unix_date(CAST({_floor_div(micros, _MICROS_PER_DAY)} AS INT))"
    if name == "days":
        return day
    year = f"(year({day}) - 1970)"
    return year if name == "years" else f"{year} * 12 + month({day}) - 1"


def _floor_div(number: str, by: int) -> str:
    return f"(({number} DIV {by}L) - IF({number} % {by}L < 0, 1L, 0L))"


def _truncate(width: int, c: str) -> str:
    """Return truncate. Only ``variant_get`` can return a value whose type is computed."""

    def typed(value: str) -> str:
        return f"variant_get(CAST({value} AS VARIANT), '$', typeof({c}))"

    whole = f"CAST(CAST({c} AS STRING) AS BIGINT)"
    # the smallest values of a type have no multiple of the width below them; as in Java, the result wraps around
    wrapped = f"IF({whole} < esker_low + esker_r, {whole} - esker_low + (esker_high - esker_r + 1L), {whole} - esker_r)"
    bounds = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
    branches = [
        f"WHEN typeof({c}) = '{kind}' THEN "
        + typed(
            _let(
                "esker_r",
                f"pmod({whole}, {width}L)",
                wrapped.replace("esker_low", f"({1 - 2**bits}L - 1L)").replace("esker_high", f"{2**bits - 1}L"),
            )
        )
        for kind, bits in bounds.items()
    ]
    number = f"({_unscaled(c)} - pmod({_unscaled(c)}, CAST({width} AS DECIMAL(38, 0))))"
    scale = f"coalesce(nullif(regexp_extract(typeof({c}), ',([0-9]+)', 1), ''), '0')"
    # -99.99 by 1000 is -100.00: a digit more than its type has
    digits = f"least(38, 1 + CAST(concat('0', regexp_extract(typeof({c}), '[(]([0-9]+)', 1)) AS INT))"
    decimal = f"concat('decimal(', CAST({digits} AS STRING), regexp_extract(typeof({c}), ',[0-9]+', 0), ')')"
    wider = f"IF(typeof({c}) LIKE 'decimal%', {decimal}, typeof({c}))"
    floored = f"CAST(concat(CAST({number} AS STRING), 'E-', {scale}) AS VARIANT)"
    branches += [
        f"WHEN typeof({c}) LIKE 'decimal%' THEN try_variant_get({floored}, '$', {wider})",
        f"WHEN {_is_text(c)} THEN " + typed(f"substring(CAST({c} AS STRING), 1, {width})"),
        f"WHEN typeof({c}) = 'binary' THEN " + typed(f"substring({_bytes(c)}, 1, {width})"),
    ]
    refusal = _refusal("truncate", c, "a whole number, decimal, string or binary")
    return f"CASE {' '.join(branches)} ELSE {refusal} END"


def _unscaled(c: str) -> str:
    """Return the digits of a decimal without its point, from text with or without an exponent."""
    return f"CAST(regexp_replace(CAST({c} AS STRING), '[.]|E.*$', '') AS DECIMAL(38, 0))"


def _bytes(c: str) -> str:
    return f"CAST(CAST({c} AS STRING) AS BINARY)"


def _hash(c: str) -> str:
    whole = f"CAST(CAST({c} AS STRING) AS BIGINT)"
    day = f"CAST(unix_date(CAST(CAST({c} AS STRING) AS DATE)) AS BIGINT)"
    expected = "a date, time, timestamp, whole number, decimal, string or binary"
    return (
        f"CASE WHEN typeof({c}) IN ('bigint', 'timestamp', 'timestamp_ntz') "
        f"THEN {_nullable(c, f'hash({_SEED_ZERO}, {c})')} "
        f"WHEN typeof({c}) IN ({_SMALL}) THEN {_nullable(c, f'hash({_SEED_ZERO}, {whole})')} "
        f"WHEN typeof({c}) = 'date' THEN {_nullable(c, f'hash({_SEED_ZERO}, {day})')} "
        f"WHEN typeof({c}) LIKE 'time(%' THEN {_nullable(c, f'hash({_SEED_ZERO}, {_micros_of_day(c)})')} "
        f"WHEN {_is_text(c)} OR typeof({c}) = 'binary' THEN {_hash_of_bytes(_bytes(c))} "
        f"WHEN typeof({c}) LIKE 'decimal%' THEN {_hash_of_bytes(_least_bytes(_unscaled(c)))} "
        f"ELSE {_refusal('bucket', c, expected)} END"
    )


def _micros_of_day(c: str) -> str:
    """Return a time of day as microseconds, from its text, because a session need not support Spark's TIME."""
    text = f"CAST({c} AS STRING)"
    hours, minutes = (f"CAST(substring({text}, {at}, 2) AS BIGINT)" for at in (1, 4))
    seconds = f"CAST(rpad(replace(substring({text}, 7), '.', ''), 8, '0') AS BIGINT)"
    return f"({hours} * {_MICROS_PER_HOUR}L + {minutes} * {_MICROS_PER_HOUR // 60}L + {seconds})"


def _nullable(c: str, value: str) -> str:
    """Return null for null, because Spark's hash of null is the seed."""
    return f"IF({c} IS NULL, NULL, {value})"


def _hash_of_bytes(value: str) -> str:
    """Return Murmur3 of bytes, with the seed 0, in 64 bits of which the lower 32 count."""
    size, full = "octet_length(esker_b)", "(octet_length(esker_b) - octet_length(esker_b) % 4)"
    words = f"hash({_SEED_ZERO}, substring(esker_b, 1, {full}))"
    rest = f"rpad(hex(substring(esker_b, {full} + 1)), 6, '0')"
    little = f"concat(substring({rest}, 5, 2), substring({rest}, 3, 2), substring({rest}, 1, 2))"
    tail = _step("esker_k", f"CAST(conv({little}, 16, 10) AS BIGINT)", "esker_k", 0xCC9E2D51)
    turned = f"((shiftleft(esker_k, 15) | shiftright(esker_k, 17)) & {_WORD}L)"
    tail = _step("esker_k", tail, turned, 0x1B873593)
    undone = _step("esker_h", f"(CAST({words} AS BIGINT) & {_WORD}L)", _shifted("esker_h", 16), 0x7ED1B41D)
    undone = _step("esker_h", undone, _shifted("esker_h", 13, 26), 0xA5CB9243)
    mixed = _let("esker_h", undone, f"({_shifted('esker_h', 16)} ^ {full} ^ {size} ^ {tail})")
    done = _step("esker_h", mixed, _shifted("esker_h", 16), 0x85EBCA6B)
    done = _step("esker_h", done, _shifted("esker_h", 13), 0xC2B2AE35)
    done = _let("esker_h", done, _shifted("esker_h", 16))
    body = f"CASE WHEN esker_b IS NULL THEN NULL WHEN {size} % 4 = 0 THEN CAST({words} AS BIGINT) ELSE {done} END"
    return _let("esker_b", value, body)


def _shifted(name: str, *by: int) -> str:
    return "(" + " ^ ".join([name, *(f"shiftright({name}, {bits})" for bits in by)]) + ")"


def _step(name: str, value: str, mixed: str, factor: int) -> str:
    """Return the mixed value times a factor, modulo 2^32, computed in halves so that no product overflows."""
    low = f"(({mixed} & 65535L) * {factor}L)"
    high = f"shiftleft((shiftright({mixed}, 16) * {factor}L) & 65535L, 16)"
    return _let(name, value, f"(({low} + {high}) & {_WORD}L)")


def _least_bytes(number: str) -> str:
    """Return an integer of up to 38 digits as the fewest bytes of its two's complement, the highest first."""
    high = "(CAST(esker_u DIV 18446744073709551616BD AS BIGINT) - IF(esker_u % 18446744073709551616BD < 0, 1L, 0L))"
    low = "pmod(esker_u, 18446744073709551616BD)"
    signed = f"CAST({low} - IF({low} >= 9223372036854775808BD, 18446744073709551616BD, 0BD) AS BIGINT)"
    digits = f"concat(lpad(hex({high}), 16, '0'), lpad(hex({signed}), 16, '0'))"
    least = f"regexp_replace({digits}, '^(?:(?:00)+(?=[0-7].)|(?:FF)+(?=[89A-F].))', '')"
    return _let("esker_u", number, f"unhex({least})")
