"""Prose is in plain English (docs/style.md): no words that few readers know, and lines that fit a screen."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from documentation import ROOT

LONGEST_LINE = 120

# What is checked, one path per line: a page, a module, or a folder of modules (``src/esker/read``). Of a module, the
# docstrings, comments and error messages are checked. Add a path when its prose is rewritten; remove none.
CHECKED = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "docs/benchmarks.md",
    "docs/catalogs.md",
    "docs/cli.md",
    "docs/coming-from.md",
    "docs/comparison.md",
    "docs/conformance.md",
    "docs/data-source.md",
    "docs/decisions/0001-compiled-avro-walk.md",
    "docs/decisions/0002-partition-values-as-intervals.md",
    "docs/decisions/0003-fast-append-by-default.md",
    "docs/decisions/0004-overwrite-conflicts.md",
    "docs/decisions/0005-known-properties.md",
    "docs/decisions/0006-moving-main-back.md",
    "docs/decisions/0007-spark-workers-write-through-arrow.md",
    "docs/decisions/0008-row-changes.md",
    "docs/decisions/0010-compiled-walk-over-otlp.md",
    "docs/decisions/0011-an-ingest-drives-itself.md",
    "docs/decisions/0012-what-a-change-is.md",
    "docs/decisions/0013-a-merge-is-decided-once.md",
    "docs/decisions/0014-streams-and-batches-that-count-once.md",
    "docs/decisions/0015-kafka-by-ranges.md",
    "docs/decisions/0016-views-are-text.md",
    "docs/decisions/0017-what-a-copy-is.md",
    "docs/decisions/0018-a-version-number-is-used-once.md",
    "docs/decisions/0019-a-query-of-numbers.md",
    "docs/decisions/0020-transforms-and-rollups.md",
    "docs/decisions/0021-joins-are-shuffled.md",
    "docs/decisions/0022-own-grammar-for-statements.md",
    "docs/decisions/0023-directory-catalogs-in-object-stores.md",
    "docs/decisions/0024-a-lost-answer-of-a-database.md",
    "docs/decisions/0025-pending-files-are-noted-beside-the-table.md",
    "docs/decisions/0028-decoded-manifests-are-kept.md",
    "docs/decisions/0029-flat-parquet-files-by-own-code.md",
    "docs/decisions/0030-deleted-rows-as-bitmaps-in-the-plan.md",
    "docs/decisions/0031-appends-in-groups.md",
    "docs/decisions/0032-paimon-behind-the-same-ports.md",
    "docs/guide.md",
    "docs/how-it-works.md",
    "docs/ingest.md",
    "docs/inspect.md",
    "docs/kafka.md",
    "docs/maintenance.md",
    "docs/statistics.md",
    "docs/merge.md",
    "docs/object-storage.md",
    "docs/otlp.md",
    "docs/promises.md",
    "docs/reference.md",
    "docs/sql.md",
    "docs/style.md",
    "docs/types.md",
    "docs/versioning.md",
    "docs/views.md",
    "examples/README.md",
    "examples/telemetry-pipeline/README.md",
    "src/esker/__init__.py",
    "src/esker/arrow",
    "src/esker/avro",
    "src/esker/catalogs",
    "src/esker/cli",
    "src/esker/create_with_rows.py",
    "src/esker/demo",
    "src/esker/engines",
    "src/esker/errors.py",
    "src/esker/iceberg",
    "src/esker/ingest",
    "src/esker/kafka",
    "src/esker/lake.py",
    "src/esker/maintain",
    "src/esker/metadata_tables",
    "src/esker/model",
    "src/esker/otlp",
    "src/esker/ports",
    "src/esker/read",
    "src/esker/spark/__init__.py",
    "src/esker/spark/attached",
    "src/esker/spark/expressions",
    "src/esker/spark/rows",
    "src/esker/spark/scan",
    "src/esker/spark/session",
    "src/esker/spark/source",
    "src/esker/spark/sql/__init__.py",
    "src/esker/spark/sql/changes",
    "src/esker/spark/sql/definitions",
    "src/esker/spark/sql/grammar/__init__.py",
    "src/esker/spark/sql/grammar/alter_statements.py",
    "src/esker/spark/sql/grammar/parse_alter.py",
    "src/esker/spark/sql/grammar/parse_definitions.py",
    "src/esker/spark/sql/grammar/parse_row_changes.py",
    "src/esker/spark/sql/grammar/parse_show.py",
    "src/esker/spark/sql/grammar/parse_statement.py",
    "src/esker/spark/sql/grammar/statements.py",
    "src/esker/spark/sql/grammar/table_references.py",
    "src/esker/spark/sql/grammar/words.py",
    "src/esker/spark/sql/guard",
    "src/esker/spark/sql/lake_names.py",
    "src/esker/spark/sql/procedures",
    "src/esker/spark/sql/queries",
    "src/esker/spark/sql/run_statement.py",
    "src/esker/spark/workers",
    "src/esker/spark/write",
    "src/esker/storage",
    "src/esker/table.py",
    "src/esker/tree",
    "src/esker/version.py",
    "src/esker/view.py",
    "src/esker/wiring.py",
    "src/esker/write/rows",
    "src/esker/write/build_manifests.py",
    "src/esker/write/build_snapshot.py",
    "src/esker/write/commit.py",
    "src/esker/write/context.py",
    "src/esker/write/definition",
    "src/esker/write/detect_conflicts.py",
    "src/esker/write/exactly_once.py",
    "src/esker/write/existing_files.py",
    "src/esker/write/group_commit.py",
    "src/esker/write/properties.py",
    "src/esker/write/refs",
    "src/esker/write/remove.py",
    "src/esker/write/steps.py",
    "src/esker/write/summary.py",
    "src/esker/write/table_changes.py",
    "src/esker/write/verbs.py",
    "src/esker/write/views",
)  # fmt: skip

# A word or phrase, whole and in any case, and what to write instead. Code between backticks is not prose.
INSTEAD = {
    "anew": "again, or rewritten, recreated",
    "aught": "anything",
    "but for": "except",
    "ere": "before",
    "henceforth": "from now on",
    "hither": "here",
    "hitherto": "so far",
    "lest": "so that … not",
    "lie": "be located",
    "lies": "is located, is",
    "of hers": "its",
    "of ours": "Esker's, our",
    "of theirs": "the other engine's, their",
    "of yours": "your",
    "spelt": "written, named",
    "thence": "from there",
    "thereby": "by this",
    "therein": "in it",
    "thereof": "of it",
    "told": "reported, recorded, detected",
    "unto": "to",
    "whence": "from which",
    "whereby": "by which",
    "wherein": "in which",
    "whereof": "of which",
    "whilst": "while",
    "whoever": "the user, the caller",
    "whomever": "the user, the caller",
    "whosever": "the owner's",
    "whosoever": "the user, the caller",
}

_WORDS = re.compile(rf"\b(?:{'|'.join(INSTEAD)})\b", re.IGNORECASE)
_CODE = re.compile(r"(`+)[^`].*?\1")
_TARGET = re.compile(r"(?<=\])\([^)\s]+\)")


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page that are not in a code block, with their numbers."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def _python(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a module's docstrings, comments and error messages, with their numbers."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            strings = [node.body[0].value] if isinstance(node.body[0], ast.Expr) else []
        else:
            strings = list(ast.walk(node)) if isinstance(node, ast.Raise) else []
        for string in strings:
            if isinstance(string, ast.Constant) and isinstance(string.value, str):
                yield from enumerate(string.value.splitlines(), start=string.lineno)


_READERS = {".md": _markdown, ".py": _python}


def _prose(name: str) -> Iterator[tuple[int, str]]:
    return _READERS[Path(name).suffix]((ROOT / name).read_text())


def _files(*names: str) -> list[str]:
    """The paths, and for a folder each module in it."""
    found = ((ROOT / name, sorted((ROOT / name).rglob("*.py"))) for name in names)
    return [str(file.relative_to(ROOT)) for path, modules in found for file in ([path] if path.is_file() else modules)]


def hard_words(lines: Iterator[tuple[int, str]]) -> list[str]:
    """Each word of the list that the lines have, two lines as one text because a phrase may be broken between them."""
    found: list[str] = []
    before = ""
    for number, line in lines:
        text = _CODE.sub("`", _TARGET.sub("", line))
        found += [
            f"line {number}: write {INSTEAD[match[0].lower()]!r} for {match[0]!r}"
            for match in _WORDS.finditer(f"{before} {text.strip()}")
            if match.end() > len(before) + 1
        ]
        before = text.strip()
    return found


def long_lines(lines: Iterator[tuple[int, str]]) -> list[str]:
    """Each line that is too long and could be broken: no row of a table, and not for the sake of a link or of code."""
    return [
        f"line {number}: {len(line)} characters"
        for number, line in lines
        if len(line) > LONGEST_LINE and not line.lstrip().startswith("|") and _can_be_broken(line)
    ]


def _can_be_broken(line: str) -> bool:
    """Whether a space outside of code and links is within the limit, the mark of a list item left out."""
    indent = re.match(r"\s*(?:[-*]|\d+\.)?\s*", line)
    assert indent is not None
    masked = re.sub(r"\[[^\]]*\]\([^)]*\)", lambda link: "x" * len(link[0]), line)
    masked = _CODE.sub(lambda code: "x" * len(code[0]), masked)
    return " " in masked[indent.end() : LONGEST_LINE + 1]


@pytest.mark.parametrize("name", _files(*CHECKED))
def test_what_is_checked_has_no_hard_words(name: str) -> None:
    assert hard_words(_prose(name)) == []


@pytest.mark.parametrize("name", [name for name in CHECKED if name.endswith(".md")])  # ruff checks modules
def test_a_checked_page_has_no_long_lines(name: str) -> None:
    assert long_lines(_prose(name)) == []


def test_every_path_is_listed_once_and_leads_to_a_file() -> None:
    assert len(set(CHECKED)) == len(CHECKED)
    assert [name for name in CHECKED if not _files(name)] == []


def test_words_of_the_list_are_found_in_any_case_and_over_the_end_of_a_line() -> None:
    text = "Told once.\n`told` and [a](told.md) are not.\nAn error of\nours is.\n```\nanew\n```\nUntold retold."
    found = hard_words(_markdown(text))
    assert [line.partition(":")[0] for line in found] == ["line 1", "line 4"]
    assert "Esker's" in found[1]


def test_docstrings_comments_and_messages_of_modules_are_read() -> None:
    text = '''"""Told."""

told = "told"  # told


def f() -> None:
    """A function.

    It lies."""
    raise ValueError(f"cannot {told}: spelt")
'''
    found = hard_words(_python(text))
    assert sorted((line.partition(":")[0], line.rpartition(" ")[2]) for line in found) == [
        ("line 1", "'Told'"),
        ("line 10", "'spelt'"),
        ("line 3", "'told'"),
        ("line 9", "'lies'"),
    ]


def test_long_lines_are_found_outside_of_tables_code_and_links() -> None:
    words = "word " * 30
    link = f"[{'x' * 60}]({'y' * 60})"
    assert long_lines(_markdown(f"{words}\n| {words} |\n```\n{words}\n```\n- {link}\n- `{words}`\na {link}")) == [
        f"line 1: {len(words)} characters",
        f"line 8: {len(link) + 2} characters",
    ]
