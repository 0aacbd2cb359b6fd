"""Which session is used, and that a question about it starts none."""

from __future__ import annotations

from typing import Any

from esker.spark.session.spark_session import SessionSource


class Stopped:
    """A session whose JVM has ended."""

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        raise ConnectionRefusedError


def test_a_session_that_has_ended_is_given_to_work_but_not_to_questions() -> None:
    session: Any = Stopped()
    source = SessionSource(session)
    assert source.get() is session
    assert source.running() is None
