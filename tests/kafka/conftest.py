"""A broker of its own for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka_broker import Broker, broker


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with broker() as made:
        yield made
