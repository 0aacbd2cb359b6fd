"""The answer of a statement, before Spark makes a frame of it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from esker.spark.sql.queries.late_answer import LateAnswer


def never() -> Any:
    raise AssertionError("a frame was made")


def test_an_answer_needs_nothing_of_how_frames_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class of frames takes two arguments in some releases of Spark, and any number in others."""

    def strict(cls: type, jdf: object, session: object) -> object:
        raise AssertionError(f"a frame of {jdf} and {session} was made")

    monkeypatch.setattr(ClassicFrame, "__new__", strict)
    answer = LateAnswer(["n"], [(1,), (2,)], never)
    assert [row["n"] for row in answer.collect()] == [1, 2]
