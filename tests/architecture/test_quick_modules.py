"""``make check`` leaves out the modules that take long, and no others."""

from __future__ import annotations

from quick_modules import ALWAYS, LIST, TESTS, left_out

LISTED = [line.removeprefix("--ignore=") for line in LIST.read_text().splitlines()]


def test_what_is_left_out_exists_and_is_there_once() -> None:
    assert sorted(set(LISTED)) == LISTED
    assert [path for path in LISTED if not (TESTS.parent / path).exists()] == []


def test_text_and_imports_are_always_checked() -> None:
    assert not ALWAYS & set(LISTED)
    assert all((TESTS.parent / path).exists() for path in ALWAYS)


def test_a_folder_stands_for_its_modules_if_none_is_quick() -> None:
    found = left_out({"tests/laws/test_verdicts.py"})
    assert "tests/faults" in found
    assert "tests/laws" not in found
    assert "tests/laws/test_binding.py" in found
    assert "tests/laws/test_verdicts.py" not in found
