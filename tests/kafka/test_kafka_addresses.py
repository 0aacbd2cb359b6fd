"""Addresses of topics: what may be said on one line, and what had better not be."""

from __future__ import annotations

from pathlib import Path

import pytest

from esker.errors import InvalidInput
from esker.kafka.address import is_address, source_of
from esker.kafka.subscription import Partition, Source, Topics


def test_an_address_names_brokers_topics_and_settings(tmp_path: Path) -> None:
    assert source_of("kafka://one,two:9/a,b") == Source(
        config={"bootstrap.servers": "one:9092,two:9"}, subscription=Topics(("a", "b"))
    )
    settings = tmp_path / "client.properties"
    settings.write_text("# of the client\n\nsasl.username = me\nsasl.password=a=b\n")
    found = source_of(
        f"kafka://one/a?config={settings}&security.protocol=SASL_SSL&failOnDataLoss=false&startingOffsets=latest"
    )
    assert found.config == {
        "bootstrap.servers": "one:9092",
        "sasl.username": "me",
        "sasl.password": "a=b",
        "security.protocol": "SASL_SSL",
    }
    assert (found.fail_on_loss, found.starting) == (False, "latest")
    assert source_of('kafka://one/a?startingOffsets={"a":{"0":5}}').starting == {Partition("a", 0): 5}
    assert [is_address(text) for text in ("kafka://a/b", "KAFKA://a/b", "kafka", "a/kafka://")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kafka://one", "it is not of the form kafka://host:9092/topic"),
        ("kafka:///a", "it is not of the form kafka://host:9092/topic"),
        ("kafka://one/a/b", "it is not of the form kafka://host:9092/topic"),
        ("kafka://me:secret@one/a", "an address must not contain a user and password"),
        ("kafka://one/a?startingOffsets=then", "cannot use startingOffsets"),
        ("kafka://one/a?failOnDataLoss=perhaps", "failOnDataLoss"),
        ("kafka://one/a?config=/nowhere", "cannot read the settings in /nowhere"),
        ("kafka://one/a?enable.auto.commit=true", "the reader's own checkpoint keeps the offsets"),
    ],
)
def test_what_is_no_address_is_refused_and_no_secret_repeated(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        source_of(text)
    assert "secret" not in str(caught.value)


def test_a_line_that_is_no_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("a=1\nwhat\n")
    with pytest.raises(InvalidInput, match=r"line 2 is not of the form name = value"):
        source_of(f"kafka://one/a?config={tmp_path / 'bad'}")
