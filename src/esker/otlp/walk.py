"""The walk over requests: the compiled one where it was built, else its twin in Python."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from esker.otlp.program import Program

MAX_BYTES = (1 << 31) - 1
MAX_BAD = 10_000
MAX_NESTED = 64
MAX_JSON = 512  # more than the deepest value that is kept takes

Data = bytes | bytearray | memoryview
SlotBuffers = tuple[int, bytes, bytes, bytes]  # length, validity, values or offsets, data


class Reason(NamedTuple):
    """Why something cannot be kept: a word for programs, and a sentence for people."""

    word: str
    sentence: str


# By the codes of the walk.
REASONS = (
    Reason("ok", ""),
    Reason("truncated", "a field passes the end of its message"),
    Reason("malformed", "a number is longer than 10 bytes"),
    Reason("malformed", "a tag is none that OTLP uses"),
    Reason("not_utf8", "a text is not UTF-8"),
    Reason("out_of_range", "a number does not fit its column: times and counts go up to 2^63 - 1"),
    Reason("bad_id", "a trace id is not 16 bytes long, or a span id not 8"),
    Reason("string_index", "a text is given as an index into a table, which only profiles have"),
    Reason("too_deep", f"a value is nested deeper than {MAX_NESTED} times"),
    Reason("not_json", "the text is not JSON"),
    Reason("bad_value", "a member has a value of another type than OTLP's"),
    Reason("too_many", f"more than {MAX_BAD} records of the request cannot be kept"),
    Reason("too_large", "it decodes to too many bytes"),
    Reason("too_deep", f"its JSON is nested deeper than {MAX_JSON} levels"),
)
OK, CUT, NUMBER, WIRE, TEXT, RANGE, LENGTH, INDEX, DEEP, SYNTAX, VALUE, MANY, FULL, LEVELS = range(14)


class Place(NamedTuple):
    """A level of a request: its node in the program, and where its bytes begin and end."""

    node: int
    start: int
    end: int


Bad = tuple[int, tuple[tuple[int, int, int], ...]]  # a code, and the places from the request down to what is bad


class Walker(Protocol):
    """Both walks: requests go in, buffers come out."""

    def feed(self, data: Data, parent: int, json: bool, /) -> tuple[int, int, int, list[Bad]]:
        """One request: a code, how many records were kept, the bytes of all buffers, and what cannot be kept.

        A code other than 0 has taken the request back as a whole.
        """

    def undo(self) -> None:
        """Take the last request back."""

    def finish(self) -> tuple[list[SlotBuffers], int, int]:
        """The buffers of every slot, and how many fields were unknown and keys repeated; the next batch is empty."""


def walker(program: Program, *, limit: int = MAX_BYTES, strict: bool = False) -> Walker:
    """A walk for this program, refusing requests past ``limit`` bytes of buffers."""
    try:
        from esker.otlp._walk import Walker as Walk
    except ImportError:
        from esker.otlp._walk_py import Walker as Walk  # type: ignore[assignment]
    return Walk(program.rows, program.slots, limit, strict)
