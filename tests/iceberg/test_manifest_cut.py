"""A manifest cut at a block border is a valid Avro container; the list's counts tell that its end is missing."""

from __future__ import annotations

import io
from dataclasses import replace

import fastavro
import pytest
from manifest_makers import a_file, a_manifest, read_entries

from esker.errors import Corrupt


def test_f49_a_manifest_cut_at_a_block_border_is_corrupt() -> None:
    files = [a_file(f"mem://t/data/{number:05}-a-rather-long-name-for-a-file.parquet") for number in range(2000)]
    manifest, data = a_manifest(files)
    blocks = list(fastavro.block_reader(io.BytesIO(data)))
    assert len(blocks) > 1, "the manifest must have several blocks for one to be cut off"
    for block in blocks[1:]:
        cut = data[: block.offset]
        assert sum(1 for _ in fastavro.reader(io.BytesIO(cut))) < 2000
        with pytest.raises(Corrupt, match=r"entries where its list counts 2000: its end is missing"):
            read_entries((manifest, cut))
    assert len(read_entries((manifest, data))) == 2000


def test_a_list_that_counts_nothing_leaves_a_short_manifest_unquestioned() -> None:

    manifest, data = a_manifest([a_file()])
    unknown = replace(manifest, added_files=None, existing_files=None, deleted_files=None)
    assert len(read_entries((unknown, data))) == 1
