"""Tables, cards and trees fit the terminal, and cut nothing off."""

from __future__ import annotations

import io
import sys

import pytest

from esker.cli.screen import Branch, Column, Screen

COLUMNS = [Column("id", right=True), Column("name", wraps=True), Column("hint", spare=1)]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, width: int | None = None) -> Screen:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLUMNS", raising=False)
    if width is not None:
        monkeypatch.setenv("COLUMNS", str(width))
    return Screen()


def test_off_a_terminal_lines_are_as_long_as_they_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    screen = _shown(monkeypatch, stream)
    screen.table(COLUMNS, [("1", "x" * 500, "y")])
    screen.line("z" * 500)
    screen.show()
    assert "x" * 500 in stream.getvalue()
    assert "z" * 500 in stream.getvalue()
    assert all(line == line.rstrip() for line in stream.getvalue().splitlines())


def test_on_a_narrow_terminal_spare_columns_go_and_the_rest_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    screen = _shown(monkeypatch, stream, 30)
    screen.table(COLUMNS, [("1234567890", "x" * 50, "hint hint hint")])
    screen.show()
    said = stream.getvalue()
    assert all(len(line) <= 30 for line in said.splitlines())
    assert said.count("x") == 50
    assert "1234567890" in said
    assert "Too narrow for: hint." in said


def test_a_column_with_nothing_to_say_is_left_out_unless_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    screen = _shown(monkeypatch, stream)
    screen.table(COLUMNS, [("1", "", ""), ("2", "", "")])
    screen.show()
    assert "name" not in stream.getvalue()
    screen.table(COLUMNS, [("1", "", "")], keep_empty=True)
    screen.show()
    assert "name" in stream.getvalue()


def test_colour_is_for_terminals_and_only_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Terminal()
    screen = _shown(monkeypatch, stream, 80)
    screen.warning("careful")
    screen.show()
    assert "\x1b[33m" in stream.getvalue()
    stream = _Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Screen()
    plain.warning("careful")
    plain.show()
    assert "\x1b[33m" not in stream.getvalue()


def test_names_are_no_markup_and_steer_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    screen = _shown(monkeypatch, stream)
    screen.card([("part", "bucket[16](id) [red]x[/red] :smile:"), ("evil", "a\x1b]0;title\x07b"), ("empty", "")])
    screen.tree(Branch("root", "note", [Branch("leaf[0]", bad=True)]))
    screen.title("t[bold]", "n")
    screen.show()
    said = stream.getvalue()
    assert "bucket[16](id) [red]x[/red] :smile:" in said
    assert "\x1b" not in said
    assert r"a\x1b]0;title\x07b" in said
    assert "empty" not in said
    assert "└── leaf[0]" in said
    assert "t[bold]  n" in said
