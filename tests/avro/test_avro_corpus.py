"""Real files of other engines decode to what fastavro reads in them."""

from __future__ import annotations

from pathlib import Path

import fastavro._read
import pytest
from avro_cases import as_column, read_by_fastavro
from corpus import corpus_root

from esker.avro import decode, decode_many
from esker.errors import Corrupt


@pytest.fixture
def raw_fastavro(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have fastavro leave logical types as they are stored."""
    for name in list(fastavro._read.LOGICAL_READERS):
        monkeypatch.delitem(fastavro._read.LOGICAL_READERS, name)


def _readable() -> list[tuple[Path, bytes, list[object]]]:
    found = []
    for path in sorted(corpus_root().rglob("*.avro")):
        data = path.read_bytes()
        try:
            found.append((path, data, read_by_fastavro(data)))
        except (ValueError, KeyError, IndexError):  # not Avro at all: the corpus has broken files on purpose
            with pytest.raises(Corrupt, match=path.name):
                decode(data, file=str(path))
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("raw_fastavro")
def test_every_real_file_decodes_to_what_fastavro_reads() -> None:
    files = _readable()
    for path, data, records in files:
        columns = decode(data, file=str(path))
        columns.batch.validate(full=True)
        assert columns.batch.to_pylist() == [as_column(columns.schema, record) for record in records], path
    together = decode_many((str(path), data) for path, data, _ in files)
    parts = sorted((part.index, part.rows) for columns in together for part in columns.parts)
    assert parts == [(index, len(records)) for index, (_, _, records) in enumerate(files)]
    assert len(together) < len(files) / 2
