"""The machines of `famulus.lab.chaos.lan`, for tests, with libzmq's sockets; who cannot part them skips the test."""

from __future__ import annotations

import os
from collections.abc import Collection

import pytest
import zmq
from tests.processes.ports import free_ports

from famulus.errors import NoNamespaces
from famulus.lab.chaos import lan

Context = zmq.Context[zmq.Socket[bytes]]


class Loopback(lan.Loopback):
    def ports(self) -> list[int]:
        return free_ports(4)

    def context(self, name: str) -> Context:
        """Sockets of this context are on that machine. It belongs to the caller."""
        return zmq.Context()

    def partition(self, *sides: Collection[str]) -> None:
        pytest.skip(str(NoNamespaces()))

    def cut_one_way(self, sender: str, receiver: str) -> None:
        pytest.skip(str(NoNamespaces()))


class Namespaces(lan.Namespaces):
    def context(self, name: str) -> Context:
        with self.inside(name):
            context: Context = zmq.Context()
            # Only now its threads are started, and they are what connects.
            context.socket(zmq.DEALER).close(0)
        return context


Lan = Loopback | Namespaces


def make_lan() -> Lan:
    """The best that there is here; `FAMULUS_TEST_LAN=loopback` does without namespaces."""
    wish = os.environ.get("FAMULUS_TEST_LAN", "")
    return Namespaces() if wish != "loopback" and lan.can_have_namespaces() else Loopback()
