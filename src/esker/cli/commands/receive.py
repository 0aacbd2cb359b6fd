"""``esker receive``: receives OTLP over HTTP and keeps it in a spool until it is ingested."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import current_settings, shared_options

if TYPE_CHECKING:
    from esker.otlp.receive.receiver import Receiver

_M_MMAP_THRESHOLD = -3  # from malloc.h
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@click.command("receive")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen at.")
@click.option("--port", default=4318, show_default=True, type=click.IntRange(0, 65535), help="0 uses a free port.")
@click.option("--spool", default="lake/spool", show_default=True, metavar="DIRECTORY", help="Where requests are kept.")
@click.option(
    "--cap", default="4G", show_default=True, metavar="SIZE", help="How large the spool may become: 500M, 4G."
)
@click.option(
    "--memory",
    default="256M",
    show_default=True,
    metavar="SIZE",
    help="Memory for requests, compressed and decompressed.",
)
@click.option("--max-request", default="64M", show_default=True, metavar="SIZE", help="How long a body may be.")
@click.option(
    "--connections", default=512, show_default=True, type=click.IntRange(1), help="How many connections at a time."
)
@click.option("--body-timeout", default=60.0, show_default=True, metavar="SECONDS", help="How long a body may take.")
@click.option("--token-file", metavar="FILE", help="Senders must send the token in FILE.")
@click.option("--strict", is_flag=True, help="Refuse JSON with ids in base64 or enums by name.")
@shared_options
def receive_command(
    host: str,
    port: int,
    spool: str,
    cap: str,
    memory: str,
    max_request: str,
    connections: int,
    body_timeout: float,
    token_file: str | None,
    strict: bool,
) -> None:
    """Receive traces, logs and metrics over OTLP/HTTP, in protobuf or JSON, and keep them on disk.

    A request is answered with 200 only after it is synced to the spool. Senders are asked to try again if the spool is
    full, or if --memory or --connections are used up. A sender that is too slow is disconnected. Stop with Ctrl-C or
    SIGTERM; a kill loses no request that was answered.
    """
    from esker.otlp.receive.intake import Limits
    from esker.otlp.receive.receiver import Receiver
    from esker.otlp.receive.spool import Spool

    if not 0 < body_timeout <= 86_400:
        raise click.UsageError(f"--body-timeout takes seconds, up to a day, not {body_timeout}")
    limits = Limits(
        memory=_size("--memory", memory),
        request=_size("--max-request", max_request),
        connections=connections,
        body_s=body_timeout,
    )
    token = None if token_file is None else _token(Path(token_file))
    _give_freed_memory_back()
    kept = Spool(Path(spool), cap_bytes=_size("--cap", cap))
    try:
        with Receiver(kept, host=host, port=port, token=token, strict=strict, limits=limits) as receiver:
            _serve(receiver, spool)
    finally:
        kept.close()
    _report(receiver.counts)


def _give_freed_memory_back() -> None:
    """Make glibc return large freed blocks to the system. By default it keeps up to 32 MiB of them for each thread, and
    a receiver has many threads. Other C libraries need no setting."""
    import ctypes

    try:
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 20)
    except (OSError, AttributeError, TypeError):
        return


def _serve(receiver: Receiver, spool: str) -> None:
    address, port = receiver.server_address[:2]
    click.echo(f"Listening on http://{address!s}:{port}, keeping requests in {spool}", err=True)
    stopping = threading.Event()

    def stop(*_: Any) -> None:
        if not stopping.is_set():
            stopping.set()  # shutdown waits for the loop in this thread, so another thread has to call it
            threading.Thread(target=receiver.shutdown, daemon=True).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        receiver.serve_forever()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(counts: dict[str, int]) -> None:
    from esker.cli.answer import answer

    if current_settings().as_json:
        answer(counts, lambda screen: None)
        return
    shown = {name: value for name, value in counts.items() if value or name != "set_aside"}
    told = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in shown.items())
    click.echo(f"Received {told}.", err=True)


def _token(path: Path) -> str:
    from esker.errors import InvalidInput

    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"Cannot read the token in {path}: {error}") from None
    if not token:
        raise InvalidInput(f"Cannot use the token in {path}: the file is empty")
    return token


def _size(option: str, text: str) -> int:
    number, unit = text.strip().lower().rstrip("b"), ""
    if number and number[-1] in _UNITS:
        number, unit = number[:-1], number[-1]
    if not number.isdecimal() or not number.isascii():
        raise click.UsageError(f"{option} takes a size such as 500M or 4G, not {text!r}")
    return int(number) * _UNITS[unit]
