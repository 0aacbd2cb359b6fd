"""The reference pages name every command, option, metadata table and column that there is."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from esker.cli.main import SECTIONS, cli

DOCS = Path(__file__).resolve().parents[2] / "docs"
COMMANDS = [name for names in SECTIONS.values() for name in names]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_section_and_its_help(name: str) -> None:
    page = (DOCS / "cli.md").read_text()
    assert f"`esker {name}" in page
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert command.help


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_told_of(name: str) -> None:
    page = (DOCS / "cli.md").read_text()
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    inner = command.commands if isinstance(command, click.Group) else {}
    for inner_name, found in inner.items():
        assert f"`esker {name} {inner_name}" in page
        assert found.help
    for parameter in [one for found in (command, *inner.values()) for one in found.params]:
        if isinstance(parameter, click.Option):
            assert any(option in page for option in parameter.opts), parameter.opts


def test_the_page_shows_no_command_that_is_not_there() -> None:
    import re

    shown = set(re.findall(r"\$ esker (\S+)", (DOCS / "cli.md").read_text()))
    assert shown <= set(COMMANDS)


def test_every_metadata_table_and_column_is_told_of() -> None:
    from fake_ports import inspect_of

    from esker.metadata_tables.inspect import Inspect
    from esker.model.partition_and_sort import PartitionField, PartitionSpec
    from esker.model.schema import Schema
    from esker.model.transform import IDENTITY
    from esker.model.types import LONG, Field
    from esker.tree.table_metadata import TableMetadata

    page = (DOCS / "inspect.md").read_text()
    metadata = TableMetadata(
        format_version=3,
        uuid=None,
        location="memory:t",
        last_updated_ms=0,
        last_column_id=1,
        schemas=(Schema(fields=(Field(id=1, name="id", type=LONG),)),),
        current_schema_id=0,
        specs=(PartitionSpec(fields=(PartitionField(source_id=1, field_id=1000, name="id", transform=IDENTITY),)),),
    )
    for name in vars(Inspect):
        if name.startswith("_"):
            continue
        if not callable(getattr(Inspect, name)):
            assert f"`table.inspect.{name}`" in page, name
            continue
        assert f"`{name}(" in page, name
        if name not in ("file_changes", "tree"):
            for column in getattr(inspect_of(metadata), name)().schema.names:
                assert f"`{column}`" in page, f"{name}.{column}"
