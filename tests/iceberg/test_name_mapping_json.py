"""Name mappings in the property ``schema.name-mapping.default`` (checklist E2)."""

from __future__ import annotations

import json

import msgspec
import pytest
from corpus import corpus_root

from esker.errors import Corrupt
from esker.iceberg.metadata.schema import PROPERTY, decode_name_mapping, encode_name_mapping
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.model.schema import MappedField

TEXT = """[
  {"field-id": 1, "names": ["id", "record.id"]},
  {"field-id": 2, "names": ["place"], "fields": [{"field-id": 3, "names": ["latitude", "lat"]}, {"names": ["new"]}]}
]"""
MAPPING = (
    MappedField(names=("id", "record.id"), field_id=1),
    MappedField(
        names=("place",),
        field_id=2,
        fields=(MappedField(names=("latitude", "lat"), field_id=3), MappedField(names=("new",))),
    ),
)


def test_e2_a_dot_is_part_of_a_name_and_nested_fields_have_mappings_of_their_own() -> None:
    assert decode_name_mapping("m.json", TEXT) == MAPPING


def test_a_mapping_wrapped_into_a_struct_is_read_too() -> None:
    """A table of DuckDB's test data has it so."""
    assert decode_name_mapping("m.json", f'{{"type": "struct", "fields": {TEXT}}}') == MAPPING


def test_a_mapping_reads_back_as_it_was_written() -> None:
    assert decode_name_mapping("m.json", encode_name_mapping(MAPPING)) == MAPPING
    assert json.loads(encode_name_mapping(MAPPING)) == json.loads(TEXT)


def test_e2_mappings_of_other_engines_tables_are_read() -> None:
    found = 0
    for path in sorted((corpus_root() / "iceberg").rglob("*.metadata.json")):
        content = path.read_bytes()
        if PROPERTY.encode() in content:
            metadata = decode_table_metadata(str(path), content)
            if PROPERTY in metadata.properties:
                mapping = decode_name_mapping(str(path), metadata.properties[PROPERTY])
                assert {field.field_id for field in mapping} <= set(metadata.any_field_by_id)
                found += 1
    assert found > 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the name mapping is not valid JSON"),
        ("{}", "the name mapping must be a JSON array"),
        ("[1]", "a field of the name mapping must be a JSON object, not 1"),
        ('[{"field-id": 1}]', "'names' is missing"),
        ('[{"names": [1]}]', "'names' must be an array of strings"),
        ('[{"names": ["a"], "field-id": "1"}]', "'field-id' must be a whole number, not '1'"),
        ('[{"names": ["a"]}, {"names": ["b", "a"]}]', "the name mapping has the name 'a' twice"),
        ('[{"names": ["a"], "fields": 5}]', "the name mapping must be a JSON array"),
        ('[{"names": ["\ud800"]}]', "the name mapping is not valid Unicode text"),
        ("[" * 5000, "nested too deeply"),
    ],
)
def test_a_broken_mapping_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        decode_name_mapping("m.json", text)


def test_a_mapping_nested_without_end_is_refused() -> None:
    nested: list[object] = []
    for _ in range(150):
        nested = [{"names": ["a"], "fields": nested}]
    with pytest.raises(Corrupt, match="nested more than 100 levels deep"):
        decode_name_mapping("m.json", msgspec.json.encode(nested).decode())
