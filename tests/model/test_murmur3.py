"""Iceberg's hash by hand, for executors without mmh3."""

from __future__ import annotations

import mmh3
from hypothesis import given
from hypothesis import strategies as st

from esker.model.transform import murmur3, murmur3_in_python


@given(st.binary(max_size=40))
def test_the_hash_by_hand_is_that_of_the_library(data: bytes) -> None:
    assert murmur3_in_python(data) == murmur3(data) == mmh3.hash(data, 0, signed=False)


def test_the_hash_of_the_specs_own_example() -> None:
    assert murmur3_in_python(b"iceberg") == 1210000089
