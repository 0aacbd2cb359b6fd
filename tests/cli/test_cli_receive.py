"""``esker receive`` says what it cannot do before it listens."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import run

from esker.otlp.receive.spool import Spool


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cap", "much"), "--cap takes a size such as 500M or 4G, not 'much'"),
        (("--host", "0.0.0.0"), "Cannot listen on 0.0.0.0 without a token"),
        (("--token-file", "nowhere"), "Cannot read the token in nowhere"),
    ],
)
def test_bad_options_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("receive", "--port", "0", "--spool", "spool", *options)
    assert done.exit_code == 2
    assert message in done.stderr


def test_an_empty_token_is_none(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    done = run("receive", "--spool", str(tmp_path / "spool"), "--token-file", str(tmp_path / "token"))
    assert done.exit_code == 2
    assert "the file is empty" in done.stderr


def test_a_spool_that_another_has_is_a_conflict(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    done = run("receive", "--port", "0", "--spool", str(tmp_path))
    assert done.exit_code == 3
    assert "another process writes to it; give each its own" in done.stderr
    spool.close()


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("receive", "--port", str(taken.getsockname()[1]), "--spool", str(tmp_path))
    assert done.exit_code == 2
    assert "Cannot listen on 127.0.0.1:" in done.stderr
