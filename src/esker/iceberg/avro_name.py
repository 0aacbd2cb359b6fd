"""Names as Avro allows them: letters, digits and underscores, not beginning with a digit."""

from __future__ import annotations

import re

_ALLOWED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def avro_name(name: str) -> str:
    """The name itself where Avro takes it, else with each odd sign as ``_x`` and its code in hex, as Java does."""
    if _ALLOWED.match(name):
        return name
    return "".join(_sign(sign, first=at == 0) for at, sign in enumerate(name)) or "_"


def _sign(sign: str, *, first: bool) -> str:
    if sign.isascii() and (sign.isalpha() or sign == "_" or (sign.isdigit() and not first)):
        return sign
    # a leading digit keeps its look behind an underscore; anything else is spelled out
    return f"_{sign}" if sign.isascii() and sign.isdigit() else f"_x{ord(sign):X}"
