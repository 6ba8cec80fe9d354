"""Ports of loopback that nobody uses."""

from __future__ import annotations

import random
import socket


def free_ports(count: int) -> list[int]:
    """Below the range from which the system gives ports to whoever connects somewhere."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randint(10_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def free_port() -> int:
    return free_ports(1)[0]
