"""A filter as the protocol writes it. What is sent selects every row that the filter selects, and maybe more.

Terms that the protocol cannot write, or that servers evaluate in another way, are left out. A bound predicate has no
NOT above its terms, so a term that is left out can only let more files through. The differences are these:

- Iceberg's own ``!=``, ``NOT IN`` and ``NOT LIKE`` select null. Esker's do not, so "not null" is sent in addition.
- Bounds ignore NaN, which is larger than every number. So ``x > 5`` is sent with "or x is NaN".
- Iceberg orders -0.0 before 0.0, Spark does not. Comparisons of floats with zero are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from esker.iceberg.metadata.single_values import encode_single_value
from esker.model.predicates.predicate import (
    Always,
    And,
    Bound,
    Compare,
    InBucket,
    IsNaN,
    IsNull,
    Like,
    OneOf,
    Op,
    Or,
    StartsWith,
    literal_prefix,
)
from esker.model.types import BinaryType, Field, FixedType, TimestampType, is_floating

_OPERATIONS = {Op.EQ: "eq", Op.NE: "not-eq", Op.LT: "lt", Op.LE: "lt-eq", Op.GT: "gt", Op.GE: "gt-eq"}


def filter_document(predicate: Bound, names: Mapping[int, str]) -> Any:
    """The filter in JSON: true, false or an object. ``names`` has the columns that the server knows under a name."""
    match predicate:
        case Always(value):
            return value
        case And(parts):
            return joined("and", [filter_document(part, names) for part in parts])
        case Or(parts):
            return joined("or", [filter_document(part, names) for part in parts])
        case _ if predicate.field.id not in names or _is_odd(predicate.field):
            return True
        case Compare(field, op, literal):
            return _compared(names[field.id], field, op, literal)
        case OneOf(field, values, negated):
            return _among(names[field.id], field, values, negated=negated)
        case IsNull(field, negated):
            return {"type": "not-null" if negated else "is-null", "term": names[field.id]}
        case IsNaN(field, negated):
            name = names[field.id]
            if not negated:
                return {"type": "is-nan", "term": name}
            return joined("or", [{"type": "is-null", "term": name}, {"type": "not-nan", "term": name}])
        case StartsWith(field, prefix, negated):
            return _starting(names[field.id], prefix, negated=negated)
        case Like(field, pattern, escape, negated):
            prefix, _ = literal_prefix(pattern, escape)
            return True if negated or not prefix else _starting(names[field.id], prefix, negated=False)
        case InBucket():
            return True


def _compared(name: str, field: Field, op: Op, literal: Any) -> Any:
    value = _value(field, literal)
    if value is None:
        return True
    test = {"type": _OPERATIONS[op], "term": name, "value": value}
    if op is Op.NE:
        return joined("and", [{"type": "not-null", "term": name}, test])
    if op in (Op.GT, Op.GE) and is_floating(field.type):
        return joined("or", [test, {"type": "is-nan", "term": name}])
    return test


def _among(name: str, field: Field, values: frozenset[Any], *, negated: bool) -> Any:
    listed = [_value(field, one) for one in sorted(values)]
    if any(one is None for one in listed):
        return True
    test = {"type": "not-in" if negated else "in", "term": name, "values": listed}
    return joined("and", [{"type": "not-null", "term": name}, test]) if negated else test


def _starting(name: str, prefix: str, *, negated: bool) -> Any:
    test = {"type": "not-starts-with" if negated else "starts-with", "term": name, "value": prefix}
    return joined("and", [{"type": "not-null", "term": name}, test]) if negated else test


def joined(kind: str, parts: Sequence[Any]) -> Any:
    """The parts as a tree, halved again and again so that it stays flat."""
    neutral = kind == "and"
    if any(part is (not neutral) for part in parts):
        return not neutral
    left = [part for part in parts if part is not neutral]
    if len(left) <= 1:
        return left[0] if left else neutral
    half = len(left) // 2
    return {"type": kind, "left": joined(kind, left[:half]), "right": joined(kind, left[half:])}


def _is_odd(field: Field) -> bool:
    """Whether servers are known to read values of the type in different ways."""
    return isinstance(field.type, BinaryType | FixedType) or (
        isinstance(field.type, TimestampType) and field.type.nanos
    )


def _value(field: Field, literal: Any) -> Any:
    """The literal in JSON; None where it cannot be sent."""
    if is_floating(field.type) and (not math.isfinite(literal) or literal == 0):
        return None
    return encode_single_value(field.type, literal)
