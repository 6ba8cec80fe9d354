"""The settings of one broker: from a TOML file, from flags, or from defaults. Every one has a default."""

from __future__ import annotations

import difflib
import os
import re
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from famulus.core.delivery import CHOICES, DeclaredService, ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.core.objective import Objective
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.steward.books import is_host
from famulus.errors import SettingsError
from famulus.journal.places import default_folder, tables_beside
from famulus.net.addresses import address
from famulus.net.addresses import is_loopback as is_loopback
from famulus.wire import limits

FRONTEND_PORT = 7100
BACKEND_PORT = 7101
CONFIG_PUB_PORT = 7102
PEER_PORT = 7103
HTTP_PORT = 7104
ADMIN_PORT = 7105

_Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
_Port = Annotated[int, Meta(ge=0, le=65535)]


def _spare_cores() -> int:
    """One core for the dispatcher, one for everything else, the rest for routers."""
    return max(1, len(os.sched_getaffinity(0)) - 2)


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    identity: _Name = msgspec.field(default_factory=socket.gethostname)
    family: _Name = "default"
    #: Where to listen. Those who come from other machines need keys, unless somebody says that they need none.
    host: _Name = "127.0.0.1"
    #: How others reach this broker, if that differs from `host`.
    advertised_host: str = ""
    frontend_port: _Port = FRONTEND_PORT
    backend_port: _Port = BACKEND_PORT
    #: The folder of a broker that belongs to a network (see `famulus init`); without one, it is on its own.
    folder: str = ""
    config_pub_port: _Port = CONFIG_PUB_PORT
    peer_port: _Port = PEER_PORT
    #: For admins, on loopback, if `host` is not: a password must not cross a network in the clear.
    admin_port: _Port = ADMIN_PORT
    #: The HTTP port: status, metrics and the dashboard. Loopback unless told otherwise: anybody who reaches it can
    #: read.
    http: bool = True
    http_host: _Name = "127.0.0.1"
    http_port: _Port = HTTP_PORT
    #: Files in PEM. With them, the HTTP port speaks TLS. A broker with a folder that is to be seen from elsewhere uses
    #: the certificate that was made with the folder.
    http_certificate: str = ""
    http_key: str = ""
    #: Whether those without a key may come from other machines, and the HTTP port may be reached from there without a
    #: certificate: something else must protect the way, such as a VPN.
    plain_on_purpose: bool = False
    routers: Annotated[int, Meta(ge=1, le=64)] = msgspec.field(default_factory=_spare_cores)
    #: What a worker gets that asks for none, and the shortest that any worker can get.
    heartbeat_ms: Annotated[int, Meta(ge=10, le=limits.HEARTBEAT_MS_MAX)] = 1000
    #: How long running tasks may still take when the broker is told to stop.
    drain_ms: Annotated[int, Meta(ge=0, le=limits.TIMEOUT_MS_MAX)] = 30_000
    #: What applies to services that are not declared.
    default_service: ServicePolicy = ServicePolicy()
    services: dict[_Name, DeclaredService] = {}
    bounds: Bounds = Bounds()
    #: Whether the broker records what it does, and where; by default in its own folder, or in the user's.
    journal: bool = True
    journal_folder: str = ""
    #: A file of the journal is finished, and visible, when it is this old or this large.
    journal_roll_s: Annotated[int, Meta(ge=1, le=3600)] = 60
    journal_roll_bytes: Annotated[int, Meta(ge=1 << 16, le=1 << 40)] = 64 * 1024 * 1024
    #: What is older, or beyond this size, is removed, oldest first; 0 means no limit.
    journal_days: Annotated[int, Meta(ge=0, le=100_000)] = 30
    journal_bytes_max: Annotated[int, Meta(ge=0, le=1 << 60)] = 10 * 1024 * 1024 * 1024
    #: Where the pipeline puts what it makes of the journal; by default beside it. The dashboard shows its findings.
    tables_folder: str = ""

    def journal_path(self) -> Path:
        """Where the journal is."""
        if self.journal_folder:
            return Path(self.journal_folder)
        return default_folder(Path(self.folder) if self.folder else None)

    def tables_path(self) -> str:
        """Where the tables made from it are."""
        return self.tables_folder or tables_beside(str(self.journal_path()))

    def book(self) -> Book:
        host = self.advertised_host or self.host
        broker = BrokerAddress(
            self.identity, self.family, address(host, self.frontend_port), address(host, self.backend_port)
        )
        rules = {name: service.rules() for name, service in self.services.items()}
        return Book(broker, self.heartbeat_ms, rules, self.default_service)

    def objectives(self) -> dict[str, Objective]:
        """Of the services that have one."""
        return {name: each.objective for name, each in self.services.items() if each.objective is not None}

    @property
    def dashboard(self) -> str:
        """Its address for others; empty if they cannot reach it, as at the loopback of another machine."""
        named = self.advertised_host or self.host
        if not self.http or not self.http_port or (is_loopback(self.http_host) and not is_loopback(named)):
            return ""
        host = named if self.http_host in ("*", "0.0.0.0", "::") else self.http_host
        return (
            f"{'https' if self.http_certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{self.http_port}"
        )

    @property
    def is_local(self) -> bool:
        return is_loopback(self.host)

    @property
    def is_private(self) -> bool:
        """Whether nobody can listen in on those who come without a key: they all come from this machine."""
        return self.is_local or not self.plain_on_purpose


def load(path: Path | None, flags: Mapping[str, object], network: Mapping[str, object] | None = None) -> Settings:
    """Flags win over the file, the file over what the network says, and that over the defaults.

    Whatever is wrong is reported in one sentence that names the key.
    """
    values: dict[str, Any] = {**(network or {}), **(_read_toml(path) if path is not None else {})}
    values.update((key, value) for key, value in flags.items() if value is not None)
    source = f"{path}: " if path is not None else ""
    # Each service by itself first: msgspec would not say which of them is wrong.
    services = values.get("services")
    for name, policy in services.items() if isinstance(services, dict) else ():
        _convert(policy, DeclaredService, source, f"services.{name}")
    if isinstance(values.get("family"), str) and not values["family"].strip():
        del values["family"]
    settings = _convert(values, Settings, source, "")
    if settings.frontend_port == settings.backend_port != 0:
        raise SettingsError(f"{source}backend_port: {settings.backend_port} is the frontend_port already")
    if settings.advertised_host and not is_host(settings.advertised_host):
        raise SettingsError(f"{source}advertised_host: {settings.advertised_host!r} is not a host's name or address")
    return settings


T = TypeVar("T", bound=Struct)


def _convert(values: object, kind: type[T], source: str, place: str) -> T:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(source + _plain_words(str(error), kind, place)) from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not TOML: {error}") from None


def _plain_words(complaint: str, kind: type[Struct], place: str) -> str:
    """msgspec's complaint with the key in front, and a guess at what was meant."""
    sentence, _, path = complaint.partition(" - at ")
    key = ".".join(filter(None, (place, path.strip("`").removeprefix("$").lstrip("."))))
    if unknown := re.search(r"unknown field `(.*)`", sentence):
        tables = {"bounds": Bounds, "default_service": ServicePolicy}
        table = Objective if key.endswith(".objective") else tables.get(key, kind)
        close = difflib.get_close_matches(unknown[1], table.__struct_fields__, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"{'.'.join(filter(None, (key, unknown[1])))}: there is no such setting{hint}"
    if words := CHOICES.get(key.rpartition(".")[2]):
        sentence += f" ({words})"
    return f"{key or 'settings'}: {sentence[0].lower()}{sentence[1:]}".replace("`", "")
