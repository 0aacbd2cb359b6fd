"""Ports for servers that a test stops and starts again at the same address."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now and that the system gives to no connection.

    While the server is down, its clients connect again and again. On the loopback interface the system may choose the
    very port they ask for as their own: the connection then connects to itself, and the server cannot have its port
    back. Ports below the range for connections cannot be chosen so.
    """
    highest = int(_RANGE.read_text().split()[0]) - 1 if _RANGE.exists() else 32_000
    ports: list[int] = []
    with ExitStack() as stack:
        while len(ports) < count:
            probe, port = stack.enter_context(socket.socket()), random.randint(_LOWEST, highest)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
    return ports
