"""The operations on namespaces."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from esker.catalogs.refusals import dotted, no_such_namespace
from esker.errors import InvalidInput, NoSuchNamespace
from esker.iceberg.json_document import JsonObject
from esker.model.table_names import Namespace, namespace_changes
from esker.ports.catalog import Catalog
from esker.serve.call import NOTHING, Answer, Call, answer_json, decode_namespace, namespace_in
from esker.serve.error_answers import NotEmpty, error_answer

_LONGEST_PAGE = 1000


class Namespaces:
    """Lists, creates, changes and drops the namespaces of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def list(self, call: Call) -> Answer:
        """The namespaces directly below the parameter ``parent``; without it, those of the first level."""
        text = call.query.get("parent", "")
        parent = decode_namespace(text) if text else ()
        there = self._catalog.namespaces()
        if parent and (parent not in there or not call.sees(parent)):  # the same answer for hidden and missing
            raise no_such_namespace(parent)
        below = [list(one) for one in there if len(one) == len(parent) + 1 and one[:-1] == parent and call.sees(one)]
        return answer_json(paged("namespaces", below, call))

    def create(self, call: Call) -> Answer:
        """Create a namespace. Its parents are created with it."""
        document = call.document()
        namespace = namespace_in(document, "namespace")
        properties = document.strings("properties")
        self._catalog.create_namespace(namespace, properties)
        return self._described(namespace)

    def load_created(self, call: Call) -> Answer:
        """The namespace that a request has created before."""
        return self._described(namespace_in(call.document(), "namespace"))

    def updated_before(self, call: Call) -> Answer:
        """The answer to an update that was made before."""
        document = call.document()
        updated, removed = sorted(document.strings("updates")), sorted(_texts(document, "removals"))
        return answer_json({"updated": updated, "removed": removed, "missing": []})

    def load(self, call: Call) -> Answer:
        """The properties of a namespace."""
        return self._described(call.namespace)

    def exists(self, call: Call) -> Answer:
        """Whether a namespace exists."""
        self._catalog.namespace_properties(call.namespace)
        return NOTHING

    def drop(self, call: Call) -> Answer:
        """Drop an empty namespace."""
        namespace = call.namespace
        self._catalog.namespace_properties(namespace)
        try:
            self._catalog.drop_namespace(namespace)
        except NoSuchNamespace:
            raise
        except InvalidInput as error:
            raise NotEmpty(f"Namespace {dotted(namespace)} is not empty: {error.message}") from error
        return NOTHING

    def update(self, call: Call) -> Answer:
        """Set and remove properties of a namespace, all or none."""
        document = call.document()
        removals = _texts(document, "removals")
        updates = document.strings("updates")
        if both := sorted(set(removals).intersection(updates)):
            why = f"cannot both set and remove the property {both[0]!r}; do one of them"
            return error_answer(422, "UnprocessableEntityException", why)
        given, gone = namespace_changes(updates, removals)
        there = self._catalog.namespace_properties(call.namespace)
        self._catalog.update_namespace_properties(call.namespace, given, gone)
        return answer_json(
            {
                "updated": sorted(given),
                "removed": sorted(name for name in gone if name in there),
                "missing": sorted(name for name in gone if name not in there),
            }
        )

    def _described(self, namespace: Namespace) -> Answer:
        properties = self._catalog.namespace_properties(namespace)
        return answer_json({"namespace": list(namespace), "properties": dict(properties)})


def _texts(document: JsonObject, name: str) -> list[str]:
    items = document.items_or_none(name) or []
    if not all(isinstance(item, str) for item in items):
        raise InvalidInput(f"cannot read the request: {name!r} must be an array of texts")
    return items


def paged(name: str, items: Sequence[Any], call: Call) -> dict[str, Any]:
    """One page of a sorted list. A client that sends no ``pageToken`` gets the whole list.

    A token holds the last item of the page before, so that what others create or drop meanwhile moves no item to
    another page. Raises ``InvalidInput`` for a token that this server did not give.
    """
    token = call.query.get("pageToken")
    if token is None:
        return {name: items, "next-page-token": None}
    size = _size(call.query.get("pageSize"))
    last = _last(token)
    left = [item for item in items if last is None or _key(item) > last]
    page = left[:size]
    more = len(left) > size
    following = base64.urlsafe_b64encode(msgspec.json.encode(_key(page[-1]))).decode() if more else None
    return {name: page, "next-page-token": following}


def _key(item: Any) -> list[str]:
    """What a list is sorted by: the levels of a namespace, or the name of a table."""
    return item if isinstance(item, list) else [*item["namespace"], item["name"]]


def _last(token: str) -> list[str] | None:
    if not token:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token.encode()), type=list[str])
    except (ValueError, msgspec.MsgspecError):
        raise InvalidInput(f"cannot read the pageToken {token[:40]!r}: this server did not give it") from None


def _size(text: str | None) -> int:
    if text is None:
        return _LONGEST_PAGE
    if not text.isascii() or not text.isdecimal() or not text.strip("0"):
        raise InvalidInput(f"cannot read the pageSize {text[:40]!r}: it takes a whole number from 1")
    return min(int(text.lstrip("0")[:9]), _LONGEST_PAGE)  # a number of thousands of digits is a large one
