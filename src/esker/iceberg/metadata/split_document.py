"""Table metadata as text: the fields of the document, and the items of its long lists, each decoded when it is used.

The compiled walk (`_split.c`) finds where they are without looking into them. A text that it does not take apart is
decoded by msgspec, with the same result. So is every text where the walk was not built.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import overload

import msgspec

from esker.iceberg.json_document import decode_raw_fields, decode_raw_items

try:
    from esker.iceberg.metadata._split import split
except ImportError:

    def split(content: bytes, /) -> list[tuple[str, int, int, bytes | None]] | None:
        """No answer: the compiled walk was not built."""
        return None


class ArrayText(Sequence[bytes]):
    """The items of a JSON array as slices of the text, made when they are read.

    An item may be wrong inside: decode it before use. Writers do not decode. They ask for runs of items, which are
    checked.
    """

    __slots__ = ("_content", "_end", "_file", "_is_checked", "_name", "_spans", "_start")

    def __init__(self, file: str, name: str, content: bytes, start: int, end: int, spans: bytes) -> None:
        self._file = file
        self._name = name
        self._content = content
        self._start = start
        self._end = end
        self._spans = array("q")  # pairs: where an item begins and ends
        self._spans.frombytes(spans)
        self._is_checked = False

    def __len__(self) -> int:
        return len(self._spans) // 2

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = 2 * (index + len(self) if index < 0 else index)
        return self._content[self._spans[at] : self._spans[at + 1]]

    def __iter__(self) -> Iterator[bytes]:
        pairs = iter(self._spans)
        return (self._content[start:end] for start, end in zip(pairs, pairs, strict=True))

    def runs(self, most: int) -> list[bytes]:
        """The text of all items, ``most`` in a run. Each run but the last ends with a comma.

        Raises `Corrupt` if an item of the array is not valid JSON. All of them are checked, once.
        """
        starts = [*self._spans[:: 2 * most], *self._spans[-1:]]
        self._check()
        return [self._content[start:end] for start, end in pairwise(starts)]

    def _check(self) -> None:
        if not self._is_checked:
            decode_raw_items(self._file, memoryview(self._content)[self._start : self._end], repr(self._name))
            self._is_checked = True


def split_document(file: str, content: bytes, lists: Collection[str]) -> dict[str, msgspec.Raw | ArrayText]:
    """The fields of a JSON object as text. Arrays among ``lists`` are `ArrayText`, if they were found by the walk.

    A text may be wrong inside: decode it before use. Raises `Corrupt` if the content is no JSON object.
    """
    found = split(content)
    places = {name: (start, end, spans) for name, start, end, spans in found or ()}
    if found is None or len(places) != len(found):  # the last of two equal names counts, but both values must be right
        return dict(decode_raw_fields(file, content, "table metadata"))
    return {
        name: msgspec.Raw(content[start:end])
        if spans is None or name not in lists
        else ArrayText(file, name, content, start, end, spans)
        for name, (start, end, spans) in places.items()
    }


def decode_items(file: str, content: msgspec.Raw | ArrayText | None, what: str) -> Sequence[msgspec.Raw | bytes]:
    """The items of an array as text. Empty if it is missing or null. Raises `Corrupt` if it is no array."""
    return content if isinstance(content, ArrayText) else decode_raw_items(file, content, what)
