"""CALL system.procedure(…)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from esker.model.token_stream import Kind, Token
from esker.spark.sql.statements import Argument, Call, Constant
from esker.spark.sql.territory import Elsewhere
from esker.spark.sql.words import Span, Words

_CONSTANTS = {"true": True, "false": False, "null": None}


def read_call(words: Words) -> Call:
    """Behind CALL. ``catalog.system.name`` is taken for any catalog but Spark's own."""
    name = words.name("the name of a procedure")
    if name.parts[0].lower() == "spark_catalog":
        raise Elsewhere
    if len(name.parts) < 2 or name.parts[-2].lower() != "system":
        raise words.unsupported(f"CALL {name}", "procedures are named system.<name>", place=name.place)
    words.expect_sign("(")
    found: list[Argument] = []
    while not words.take_sign(")"):
        if found:
            words.expect_sign(",")
        found.append(_argument(words))
    words.expect_end()
    return Call(name=name.parts[-1].lower(), arguments=tuple(found), place=name.place)


def _argument(words: Words) -> Argument:
    place = words.place
    arrow = words.peek(1)
    name = None
    if arrow is not None and arrow.is_sign and arrow.text == "=>":
        name = words.word("the name of an argument").lower()
        words.expect_sign("=>")
    span = words.until()
    text = words.text_of(span)
    if not text.strip():
        raise words.refuse("expected a value")
    return Argument(name, text, place, *_constant(words, span))


def _constant(words: Words, span: Span) -> tuple[bool, Constant | Mapping[Constant, Constant]]:
    """Whether the value is a plain constant or a map of them, and which; anything else is for Spark to compute."""
    inside = [token for token in words.tokens.tokens if span.start <= token.start < span.end]
    signs = [token.text if token.is_sign else None for token in inside]
    if inside[0].word != "map" or len(inside) < 3 or signs[1] != "(" or signs[-1] != ")":
        return _single(inside)
    members: list[list[Token]] = [[]]
    for token, sign in zip(inside[2:-1], signs[2:-1], strict=True):
        if sign == ",":
            members.append([])
        else:
            members[-1].append(token)
    found = [_single(member) if member else (False, None) for member in members]
    if len(found) % 2 or not all(is_constant for is_constant, _ in found) or None in {key for _, key in found[::2]}:
        return False, None
    return True, {key: value for (_, key), (_, value) in zip(found[::2], found[1::2], strict=True)}


def _single(inside: Sequence[Token]) -> tuple[bool, Constant]:
    negative = len(inside) == 2 and inside[0].is_sign and inside[0].text == "-"
    token = inside[-1]
    if len(inside) > 1 + negative:
        return False, None
    if token.kind is Kind.NUMBER and token.text.isascii() and token.text.isdecimal():
        return True, int(token.text) * (-1 if negative else 1)
    if token.kind is Kind.STRING and not negative:
        return True, token.text
    if token.word in _CONSTANTS and not negative:
        return True, _CONSTANTS[str(token.word)]
    return False, None
