"""The tree of errors: what each carries, and that it arrives whole in another process."""

from __future__ import annotations

import pickle

import pytest

import esker


def test_a_failure_of_storage_says_whether_to_retry_and_survives_pickling() -> None:
    error = esker.StorageFailed("cannot create a.parquet", retryable=True, operation="create", file="a.parquet")
    arrived = pickle.loads(pickle.dumps(error))
    assert isinstance(arrived, esker.StorageFailed)
    assert (arrived.message, arrived.retryable, arrived.operation, arrived.file) == (
        "cannot create a.parquet",
        True,
        "create",
        "a.parquet",
    )
    assert arrived.with_facts(table="t", retryable=False).facts == {**error.facts, "table": "t"}


def test_a_failure_of_storage_cannot_leave_open_whether_to_retry() -> None:
    with pytest.raises(TypeError, match="retryable"):
        esker.StorageFailed("cannot create a.parquet", file="a.parquet")  # type: ignore[call-arg]
