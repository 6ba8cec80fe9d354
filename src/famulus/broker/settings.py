"""The settings of one broker: from a TOML file, from flags, or from defaults. Every one has a default."""

from __future__ import annotations

import difflib
import os
import re
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.core.routing.book import Book, BrokerAddress
from famulus.errors import SettingsError
from famulus.net.sockets import address
from famulus.wire import limits

FRONTEND_PORT = 7100
BACKEND_PORT = 7101

_Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Port = Annotated[int, Meta(ge=0, le=65535)]


def _spare_cores() -> int:
    """One core for the dispatcher, one for everybody else, the rest for routers."""
    return max(1, len(os.sched_getaffinity(0)) - 2)


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    identity: _Name = msgspec.field(default_factory=socket.gethostname)
    family: _Name = "default"
    #: Where to listen. Loopback unless told otherwise: there is no authentication yet.
    host: _Name = "127.0.0.1"
    #: How others reach this broker, if that differs from `host`.
    advertised_host: str = ""
    frontend_port: _Port = FRONTEND_PORT
    backend_port: _Port = BACKEND_PORT
    routers: Annotated[int, Meta(ge=1, le=64)] = msgspec.field(default_factory=_spare_cores)
    #: What a worker that wishes for nothing gets, and the shortest that one can get.
    heartbeat_ms: Annotated[int, Meta(ge=10, le=limits.HEARTBEAT_MS_MAX)] = 1000
    #: How long running tasks may take when the broker is told to stop.
    drain_ms: Annotated[int, Meta(ge=0, le=limits.TIMEOUT_MS_MAX)] = 30_000
    #: What holds for services that are not declared.
    default_service: ServicePolicy = ServicePolicy()
    services: dict[_Name, ServicePolicy] = {}
    bounds: Bounds = Bounds()

    def book(self) -> Book:
        host = self.advertised_host or self.host
        broker = BrokerAddress(
            self.identity, self.family, address(host, self.frontend_port), address(host, self.backend_port)
        )
        return Book(broker, self.heartbeat_ms, dict(self.services), self.default_service)

    @property
    def is_local(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def load(path: Path | None, flags: Mapping[str, object]) -> Settings:
    """Flags win over the file, the file over the defaults. Whatever is wrong is one sentence that names the key."""
    values: dict[str, Any] = _read_toml(path) if path is not None else {}
    values.update((key, value) for key, value in flags.items() if value is not None)
    source = f"{path}: " if path is not None else ""
    try:
        settings = msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(source + _plain_words(str(error))) from None
    if settings.frontend_port == settings.backend_port != 0:
        raise SettingsError(f"{source}backend_port: {settings.backend_port} is the frontend_port already")
    return settings


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not TOML: {error}") from None


def _plain_words(complaint: str) -> str:
    """msgspec's complaint with the key in front, and a guess at what was meant."""
    sentence, _, place = complaint.partition(" - at ")
    key = place.strip("`").removeprefix("$").lstrip(".") or "settings"
    # msgspec shows the keys of a table as [...]; which one it was, the rest of the sentence tells.
    key = key.replace("[...]", ".*")
    if unknown := re.search(r"unknown field `(.*)`", sentence):
        name = unknown[1]
        table: type[Struct] = Settings
        if key.startswith(("services", "default_service")):
            table = ServicePolicy
        elif key.startswith("bounds"):
            table = Bounds
        close = difflib.get_close_matches(name, table.__struct_fields__, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"{name}: there is no such setting{'' if key == 'settings' else ' in ' + key}{hint}"
    return f"{key}: {sentence[0].lower()}{sentence[1:]}".replace("`", "")
