"""The settings of a worker, checked. Knows no sockets."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from famulus.errors import SettingsError
from famulus.net.addresses import backend
from famulus.net.passes import Pass
from famulus.wire import limits
from famulus.worker.time_limit import limit_ns

PROCESSES_MAX = 1024
#: A hundred days: anything longer would mean never.
LONGEST_S = 100 * 86_400.0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    identity: str
    #: Addresses of brokers' backends, the preferred one first. Empty: nobody chose any, and the default is used.
    addresses: tuple[str, ...] = ()
    slots: int | None = None
    processes: int = 0
    heartbeat_ms: int | None = None
    wait: bool = False
    drain_s: float = 30.0
    connect_timeout_s: float = 5.0
    config_file: Path | None = None
    return_after_s: tuple[float, float] = (30.0, 90.0)
    #: Serve all of the brokers at the same time, each with its share of the slots; otherwise one at a time.
    at_once: bool = False
    #: How long a call of a function may take, where its service has no limit of its own.
    time_limit_s: float | None = None
    #: What it shows to brokers that want keys.
    admitted_by: Pass | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.identity) <= limits.NAME_CHARS_MAX or not self.identity.isprintable():
            raise SettingsError(f"identity: 1 to {limits.NAME_CHARS_MAX} printable characters, not {self.identity!r}")
        if self.slots is not None:
            _check_range("slots", self.slots, 1, limits.SLOTS_MAX)
        _check_range("processes", self.processes, 0, PROCESSES_MAX)
        if self.heartbeat_ms is not None:
            _check_range("heartbeat_ms", self.heartbeat_ms, 1, limits.HEARTBEAT_MS_MAX)
        if not self.drain_s >= 0:
            raise SettingsError(f"drain_s: seconds, 0 or more, not {self.drain_s!r}")
        if not self.connect_timeout_s > 0:
            raise SettingsError(f"connect_timeout_s: seconds, more than 0, not {self.connect_timeout_s!r}")
        limit_ns("", self.time_limit_s)
        if self.config_file is not None and not self.config_file.name:
            raise SettingsError(f"config_file: the path of a file, not {str(self.config_file)!r}")
        least_s, most_s = self.return_after_s
        if not 0 <= least_s <= most_s < LONGEST_S:
            raise SettingsError(f"return_after_s: two times in seconds, the smaller first, not {self.return_after_s!r}")
        if self.at_once:
            self._check_at_once()

    def _check_at_once(self) -> None:
        count = len(self.addresses)
        if not count:
            raise SettingsError("at_once: name the brokers that this worker is to serve")
        if self.config_file is not None:
            raise SettingsError(
                "config_file: not with at_once, where a worker goes to no other brokers than those given"
            )
        if self.capacity < count:
            raise SettingsError(
                f"slots: {self.capacity} cannot be divided among {count} brokers; each needs one of its own"
            )

    @property
    def capacity(self) -> int:
        """How many tasks at once we ask for: as given, or one for each process, or one."""
        return self.slots if self.slots is not None else max(1, self.processes)


def chosen_addresses(broker: str | None, brokers: Sequence[str]) -> tuple[str, ...]:
    """The addresses that somebody chose, the preferred one first; empty if nobody did."""
    if isinstance(brokers, str):
        raise SettingsError(f"brokers: a list of addresses, not {brokers!r}")
    given = [broker, *brokers] if broker else list(brokers)
    from_environment = os.environ.get("FAMULUS_BACKEND")
    if not given and from_environment:
        given = [from_environment]
    return tuple(dict.fromkeys(backend(each) for each in given))


def new_identity() -> str:
    """Unique to this worker: host and process id for people, a random part for several workers in one process."""
    host = socket.gethostname().partition(".")[0][:100] or "worker"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


def _check_range(key: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or not least <= value <= most:
        raise SettingsError(f"{key}: a number from {least} to {most}, not {value!r}")
