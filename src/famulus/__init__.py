"""Famulus: a network of brokers that carries tasks from clients to workers by service name.

from famulus import Client

with Client() as client:
    print(client.request("echo", b"hello"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from famulus._plain import choose_core

choose_core()

from famulus.errors import (  # noqa: E402 - what is imported from here on is subject to that choice
    BadAnswer,
    BrokerFailed,
    BrokerUnreachable,
    Closed,
    FamulusError,
    IdentityTaken,
    OutcomeError,
    ProtocolError,
    Rejected,
    SettingsError,
    TaskError,
    Unknown,
)

if TYPE_CHECKING:
    from famulus.client.aio import AsyncClient
    from famulus.client.async_stream import AsyncStream
    from famulus.client.stream import Stream
    from famulus.client.threads import Client, Retry
    from famulus.typed.service import Service
    from famulus.worker.task import Task
    from famulus.worker.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "BadAnswer",
    "BrokerFailed",
    "BrokerUnreachable",
    "Client",
    "Closed",
    "FamulusError",
    "IdentityTaken",
    "OutcomeError",
    "ProtocolError",
    "Rejected",
    "Retry",
    "Service",
    "SettingsError",
    "Stream",
    "Task",
    "TaskError",
    "Unknown",
    "Worker",
    "__version__",
]

# A router needs no client and a client no worker: each is imported when it is first asked for.
_HOMES = {
    "AsyncClient": "famulus.client.aio",
    "AsyncStream": "famulus.client.async_stream",
    "Client": "famulus.client.threads",
    "Retry": "famulus.client.threads",
    "Service": "famulus.typed.service",
    "Stream": "famulus.client.stream",
    "Task": "famulus.worker.task",
    "Worker": "famulus.worker.worker",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'famulus' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    # What a shell shows: only what is meant to be used.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
