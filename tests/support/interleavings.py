"""Every interleaving of writers at the borders of their steps, one after the other and always the same.

Each writer runs in a thread of its own and stops at each border until it is let on. Files are written once, under
names nobody else has, so what writers can see of each other goes through the catalog's pointer: its reads and swaps
are the borders that matter, and between them order makes no difference. Nor does the order of two reads that follow
each other: of such twins only one is run.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from doors import Door

T = TypeVar("T")
BORDERS = ("get", "move")


class Writer(Door):
    """A door that stops at every border until the writer is let on."""

    def __init__(self, work: Callable[[Door], object]) -> None:
        super().__init__()
        self.error: BaseException | None = None
        self.is_done = False
        self.pending = ""  # what it will do when it is let on
        self._at_border = threading.Semaphore(0)
        self._let_on = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def go(self, verb: str, what: str, do: Callable[[], T]) -> T:
        if verb in BORDERS and threading.current_thread() is self._thread:
            self.pending = verb
            self._at_border.release()
            self._let_on.acquire()
        return super().go(verb, what, do)

    def start(self) -> None:
        """Run to the first border."""
        self._thread.start()
        self._at_border.acquire()

    def step(self) -> None:
        """Run from this border to the next, or to the end."""
        self._let_on.release()
        self._at_border.acquire()

    def _run(self, work: Callable[[Door], object]) -> None:
        try:
            work(self)
        except BaseException as error:
            self.error = error
        self.is_done = True
        self._at_border.release()


def run(writers: Sequence[Writer], choices: Sequence[int]) -> list[tuple[int, int]]:
    """Let writers on as ``choices`` say, the first that can go where they say no more.

    Gives what was chosen at each border and out of how many: enough to find the next interleaving.
    """
    for writer in writers:
        writer.start()
    taken: list[tuple[int, int]] = []
    last: tuple[int, str] = (-1, "")
    while alive := [at for at, writer in enumerate(writers) if not writer.is_done]:
        # a read of a later writer just before one of an earlier: the twin with the earlier one first is run as well
        able = [at for at in alive if not (at < last[0] and last[1] == writers[at].pending == "get")] or alive
        choice = choices[len(taken)] % len(able) if len(taken) < len(choices) else 0
        taken.append((choice, len(able)))
        last = able[choice], writers[able[choice]].pending
        writers[able[choice]].step()
    return taken


def interleavings(begin: Callable[[], Sequence[Writer]]) -> Iterator[Sequence[Writer]]:
    """Run all there are, each from a fresh beginning; gives the writers after each."""
    choices: list[int] = []
    while True:
        writers = begin()
        taken = run(writers, choices)
        yield writers
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        choices = [*(choice for choice, _ in taken[:-1]), taken[-1][0] + 1]


def sampled(begin: Callable[[], Sequence[Writer]], number: int, seed: int) -> Iterator[Sequence[Writer]]:
    """Some of them, where all are too many."""
    draw = random.Random(seed)
    for _ in range(number):
        writers = begin()
        run(writers, [draw.randrange(1000) for _ in range(200)])
        yield writers
