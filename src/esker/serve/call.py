"""One request to the server and its answer, as data: what the operations see of HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from esker.catalogs.refusals import checked_name
from esker.errors import InvalidInput
from esker.iceberg.json_document import JsonObject
from esker.model.table_names import Namespace, TableName, parse_namespace

REQUEST = "the request"
"""What error messages name as the place of a fault in a request's body."""
SEPARATOR = "\x1f"
"""Between the levels of a namespace, in a path or a parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status, a JSON document as bytes, and headers."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


NOTHING = Answer(status=204)


def answer_json(document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """The answer with a JSON document. ``msgspec.Raw`` parts are not encoded again."""
    return Answer(status=status, body=msgspec.json.encode(document), headers=headers or {})


def _everything(namespace: Namespace) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request for one operation: the gaps of its path, its parameters, headers and body.

    Headers have lower-case names.
    """

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    sees: Callable[[Namespace], bool] = _everything  # whether the caller may know of a namespace
    has: Callable[[Namespace], bool] = _everything  # whether the caller may know of the tables in a namespace
    may_write: bool = True  # whether the caller may change what the request names
    kept: str = ""  # of a request that was carried out before: the metadata file of the table that it removed

    @property
    def namespace(self) -> Namespace:
        """The namespace in the path. Raises ``InvalidInput`` for a name that cannot exist."""
        return decode_namespace(self.path["namespace"])

    @property
    def table(self) -> TableName:
        """The table in the path. Raises ``InvalidInput`` for a name that cannot exist."""
        return _named(self.namespace, self.path["table"])

    @property
    def view(self) -> TableName:
        """The view in the path. Raises ``InvalidInput`` for a name that cannot exist."""
        return _named(self.namespace, self.path["view"])

    def document(self) -> JsonObject:
        """The body as a JSON object. Raises ``InvalidInput`` if it is not JSON, or has a number of over 64 bits.

        A fault in its fields raises ``Corrupt`` of the file `REQUEST`. The service reports it as a fault of the sender.
        """
        try:
            value = msgspec.json.decode(self.body or b"null")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if coding := self.headers.get("content-encoding"):
                raise InvalidInput(f"cannot read the request: send its body without {coding[:20]!r} encoding") from None
            raise InvalidInput(f"cannot read the request: its body is not JSON: {error}") from None
        _check_numbers(value)
        return JsonObject(REQUEST, "the body", value)

    @property
    def accepts_gzip(self) -> bool:
        """Whether the client can read a compressed answer."""
        return _accepts_gzip(self.headers.get("accept-encoding", ""))

    def flag(self, name: str) -> bool:
        """A parameter that is true or false. Raises ``InvalidInput`` for another value."""
        text = self.query.get(name, "false").lower()
        if text not in ("true", "false"):
            raise InvalidInput(f"cannot read the parameter {name}={text!r}: it takes true or false")
        return text == "true"


def _check_numbers(value: Any) -> None:
    """Raise ``InvalidInput`` for a whole number that other engines could not read back from the metadata."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list):
            left += one
        elif isinstance(one, int) and not -(1 << 63) <= one < 1 << 63:
            raise InvalidInput(f"cannot read the request: {str(one)[:30]} is not a number of 64 bits")


@lru_cache(maxsize=64)  # clients have few ways to write it
def _accepts_gzip(header: str) -> bool:
    for part in header.lower().split(","):
        coding, *parameters = (one.strip() for one in part.split(";"))
        if coding == "gzip":
            return all(one.rstrip("0.") != "q=" for one in parameters)  # q=0, q=0.0: not this one
    return False


def decode_namespace(text: str) -> Namespace:
    """The levels of a namespace. The separator of the protocol is 0x1F; clients of early days send ``%1F`` twice
    encoded. Raises ``InvalidInput`` for a name that cannot exist."""
    return parse_namespace(tuple(text.replace("%1F", SEPARATOR).replace("%1f", SEPARATOR).split(SEPARATOR)))


def identifier_in(document: JsonObject) -> TableName:
    """The table or view that a document of a namespace and a name identifies. Raises ``InvalidInput``."""
    return _named(namespace_in(document, "namespace"), document.string("name"))


def namespace_in(document: JsonObject, field_name: str) -> Namespace:
    """A namespace that is an array of texts. Raises ``InvalidInput``."""
    levels = document.items(field_name)
    if not levels or not all(isinstance(level, str) for level in levels):
        raise document.corrupt(f"{field_name!r} must be an array of names")
    if any("%1F" in level.upper() for level in levels):
        raise InvalidInput("cannot use a namespace with %1F in its name: in a path it separates levels")
    return parse_namespace(tuple(levels))


def _named(namespace: Namespace, name: str) -> TableName:
    """The name, with no dot in any part: as text it would be the name of another table."""
    return checked_name(TableName(namespace, name))
