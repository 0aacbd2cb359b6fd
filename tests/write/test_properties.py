"""Properties that steer commits: read strictly, and every one of them read at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from doors import Door, MemoryLake
from hypothesis import given
from hypothesis import strategies as st
from orders import NAME, orders, rows
from sound_tables import check_sound, manifests_of, rows_of

import esker
from esker.errors import InvalidInput, Unsupported
from esker.iceberg.format_writer import _CODECS
from esker.write.properties import KNOWN, switch, whole_number


@given(st.integers(0, 1 << 70))
def test_a_whole_number_is_read_as_it_is_written(number: int) -> None:
    assert whole_number({"k": str(number)}, "k", 7) == number


@given(st.text().filter(lambda text: not text.strip().lstrip("+-").replace("_", "").isdecimal()))
def test_what_is_no_number_is_refused_by_the_name_of_its_property(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot use k = ") as raised:
        whole_number({"k": text}, "k", 7)
    assert raised.value.property == "k"


def test_a_number_that_is_too_small_is_refused_and_none_at_all_is_the_default() -> None:
    assert whole_number({}, "k", 7) == 7
    with pytest.raises(InvalidInput, match="it takes a whole number from 3"):
        whole_number({"k": "2"}, "k", 7, at_least=3)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("FALSE", False), (" True ", True)])
def test_a_switch_is_true_or_false(text: str, value: bool) -> None:
    assert switch({"k": text}, "k", default=not value) is value
    assert switch({}, "k", default=value) is value
    with pytest.raises(InvalidInput, match="cannot use k = 'yes': it takes true or false"):
        switch({"k": "yes"}, "k", default=value)


def test_every_property_of_commits_is_read_somewhere() -> None:
    """One that is taken and forgotten is worse than one that is refused."""
    root = Path(esker.__file__).parent
    source = "".join(file.read_text() for file in root.rglob("*.py") if file.name != "known_properties.py")
    asked = [key for key in KNOWN if key.startswith(("commit.", "history.", "write.metadata.", "write.wap."))]
    assert len(asked) > 15
    assert [key for key in asked if f'"{key}"' not in source] == []


@pytest.mark.parametrize("codec", sorted(_CODECS))
def test_manifests_are_compressed_as_the_table_asks(codec: str) -> None:
    memory = MemoryLake()
    table = orders(memory.lake(), properties={"write.avro.compression-codec": codec})
    for at in range(3):
        table.append(rows([at]))
    head = memory.storage.read(manifests_of(table)[0].path)[:4000]
    assert (b"deflate" in head) == (_CODECS[codec] == "deflate")
    assert rows_of(check_sound(memory.lake(), NAME)) == [0, 1, 2]


def test_a_codec_that_manifests_cannot_have_is_refused_when_it_is_set() -> None:
    memory = MemoryLake()
    for codec in ("zstd", "snappy"):
        with pytest.raises(Unsupported, match=rf"cannot honour write\.avro\.compression-codec = '{codec}'"):
            orders(memory.lake(), properties={"write.avro.compression-codec": codec})
    with pytest.raises(InvalidInput, match=r"write\.avro\.compression-codec = 'rar'"):
        orders(memory.lake(), properties={"write.avro.compression-codec": "rar"})


def test_metadata_files_go_where_the_table_says() -> None:
    memory = MemoryLake()
    place = "memory://warehouse/elsewhere"
    orders(memory.lake(), properties={"write.metadata.path": place, "write.data.path": f"{place}/rows"})
    door = Door()
    table = memory.lake(door).table(NAME)
    table.append(rows([1]))
    written = door.of("write")
    assert len(written) == 4
    assert all(location.startswith(place) for location in written)
    assert sum(location.startswith(f"{place}/rows") for location in written) == 1
    assert rows_of(check_sound(memory.lake(), NAME)) == [1]
