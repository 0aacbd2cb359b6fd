"""For which rows of Arrow data a bound predicate is TRUE, with Spark's semantics.

NaN equals itself and is above every number, the two zeros are equal, a float column is compared as double. Null
satisfies only the tests for null. So every result here is true or false, never null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.column_transforms import transformed
from esker.errors import InvalidInput
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
    Term,
    as_regex,
)
from esker.model.transform import BucketTransform
from esker.model.types import DecimalType, Type, is_floating

_KERNELS = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


def matches(bound: Bound, columns: Mapping[int, pa.Array], rows: int) -> pa.BooleanArray:
    """True where the predicate is TRUE. ``columns`` has ``rows`` values of each column in the predicate, by field id.

    A struct field is an array of its own. It is null where its struct is null.
    """
    match bound:
        case Always(value):
            return _constant(value, rows)
        case And(parts):
            return _folded(parts, columns, rows, pc.and_, start=True)
        case Or(parts):
            return _folded(parts, columns, rows, pc.or_, start=False)
        case _:
            return _term(bound, columns[bound.field.id], rows)


def _folded(parts: tuple[Bound, ...], columns: Mapping[int, pa.Array], rows: int, join: Any, *, start: bool) -> Any:
    answer = None
    for part in parts:
        found = matches(part, columns, rows)
        answer = found if answer is None else join(answer, found)
        if (not answer.true_count) if start else answer.true_count == rows:  # nothing can change the result any more
            return answer
    return _constant(start, rows) if answer is None else answer


def _constant(value: bool, rows: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), rows)


def _term(term: Term, column: pa.Array | pa.ChunkedArray, rows: int) -> pa.BooleanArray:
    column = _whole(column)
    if len(column) != rows:
        raise InvalidInput(f"column {term.field.name!r} has {len(column)} values where {rows} rows are filtered")
    match term:
        case IsNull(_, negated):
            return column.is_valid() if negated else column.is_null()
        case IsNaN(_, negated):
            return _is_nan(column, term.field.type, negated=negated)
    if pa.types.is_null(column.type):
        return _constant(False, rows)
    if pa.types.is_dictionary(column.type):  # one result per distinct value, and no null satisfies these terms
        answers = _over_values(term, _whole(column.dictionary))
        return _settled(answers.take(column.indices))
    return _over_values(term, column)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    return column


def _settled(answers: pa.Array) -> pa.BooleanArray:
    return answers.fill_null(False) if answers.null_count else answers


def _is_nan(column: pa.Array, type_: Type, *, negated: bool) -> pa.BooleanArray:
    if not is_floating(type_) or pa.types.is_null(column.type):
        return _constant(negated, len(column))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    nan = _settled(pc.is_nan(column))
    return pc.invert(nan) if negated else nan


def _over_values(term: Term, column: pa.Array) -> pa.BooleanArray:
    """A term that null does not satisfy, over plain values."""
    if isinstance(term, InBucket):
        return _in_bucket(term, column)
    column = _comparable(term.field.type, column)
    match term:
        case Compare(field, op, literal):
            answers = _KERNELS[op](column, _scalar(field.type, literal, column.type))
            if is_floating(field.type) and op in (Op.GT, Op.GE):  # "not equal" is already true for NaN
                answers = pc.or_(answers, pc.is_nan(column))
        case OneOf(field, values, negated):
            answers = _among(field.type, values, column)
            answers = pc.invert(answers) if negated else answers
        case StartsWith(_, prefix, negated):
            answers = pc.starts_with(column, prefix)
            answers = pc.invert(answers) if negated else answers
        case Like(_, pattern, escape, negated):
            answers = pc.match_substring_regex(column, as_regex(pattern, escape))
            answers = pc.invert(answers) if negated else answers
        case _:
            raise TypeError(f"{term!r} is not a term over values")
    if column.null_count:
        answers = pc.and_(_settled(answers), column.is_valid())
    return _settled(answers)


def _in_bucket(term: InBucket, column: pa.Array) -> pa.BooleanArray:
    coded = transformed(BucketTransform(term.buckets), term.field.type, column, term.field.name)
    wanted = [value is not None and (value in term.values) != term.negated for value in coded.values]
    return pa.array(np.array(wanted, dtype=bool)[coded.codes])


def _comparable(type_: Type, column: pa.Array) -> pa.Array:
    """The column as numbers, text or bytes, like held literals."""
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_date64(kind):
        column = column.view(pa.int64())
    elif pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        column = column.cast(pa.binary())
    elif pa.types.is_string_view(kind):
        column = column.cast(pa.string())
    if is_floating(type_) and not pa.types.is_float64(column.type):
        column = column.cast(pa.float64())
    return column.cast(pa.int64()) if pa.types.is_integer(column.type) else column


def _scalar(type_: Type, literal: Any, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(literal, _widest(type_) if isinstance(type_, DecimalType) else kind)


def _widest(type_: DecimalType) -> pa.DataType:
    return pa.decimal128(38, type_.scale)


def _among(type_: Type, values: frozenset[Any], column: pa.Array) -> pa.Array:
    if is_floating(type_):
        column = pc.add(column, 0.0)  # makes the two zeros equal, which a hash would distinguish
    if isinstance(type_, DecimalType):
        column = column.cast(_widest(type_))
    return pc.is_in(column, value_set=pa.array(list(values), column.type))
