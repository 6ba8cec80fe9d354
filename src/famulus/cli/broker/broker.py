"""`famulus broker`: run one broker in the foreground."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from famulus.cli.logs import set_up_logs
from famulus.cli.options import flat, option
from famulus.errors import SettingsError

if TYPE_CHECKING:
    from famulus.broker.settings import Settings


#: How long the network may take to let a broker join.
JOIN_S = 20.0
#: Those that others have to know.
PORTS = ("frontend_port", "backend_port", "config_pub_port", "peer_port")


@dataclass(frozen=True)
class ServingOptions:
    """Who the broker is, and how it serves."""

    identity: str | None = option("The broker's name. [default: the host's name]")
    host: str | None = option("Where to listen. [default: 127.0.0.1, or where others reach it]")
    advertised_host: str | None = option("How others reach it, if that is not where it listens. [default: the same]")
    frontend_port: int | None = option("For clients; 0 is any free port. [default: 7100]")
    backend_port: int | None = option("For workers; 0 is any free port. [default: 7101]")
    routers: int | None = option("Router processes. [default: cores - 2, at least 1]")
    heartbeat_ms: int | None = option("Shortest heartbeat; a worker silent for three is lost. [default: 1000]")
    drain_ms: int | None = option("How long running tasks may take when it stops. [default: 30000]")


@dataclass(frozen=True)
class MembershipOptions:
    """Membership in a network."""

    folder: Path | None = option("The folder of a broker of a network, made by 'famulus init' or --join.")
    join: str | None = option("Join the network of the broker with this peer port.", metavar="HOST:PORT")
    secret_file: Path | None = option(
        "With --join: the network's secret. Without it, the broker's key has to be trusted there. "
        "[default: FAMULUS_JOIN_SECRET]"
    )
    network: str | None = option("With --join: how the network's id begins. [default: any network]", metavar="ID")


@dataclass(frozen=True)
class NetworkOptions:
    """The family, and where the broker listens for others of its network."""

    family: str | None = option("With --join: its family. [default: main]")
    config_pub_port: int | None = option("For changes of the config. [default: 7102]")
    peer_port: int | None = option("For other brokers. [default: 7103]")
    admin_port: int | None = option("For admins, on loopback, where clients come from other machines. [default: 7105]")


@dataclass(frozen=True)
class OutputOptions:
    """What the broker reports about itself, and where it records that."""

    http: bool | None = option("Status, metrics and dashboard over HTTP. [default: http]", "--http/--no-http")
    http_host: str | None = option("Where HTTP listens. [default: 127.0.0.1]")
    http_port: int | None = option("For HTTP; 0 is any free port. [default: 7104]")
    journal: bool | None = option("Keep a journal of what happens. [default: --journal]", "--journal/--no-journal")
    journal_folder: Path | None = option(
        "Where to keep it. [default: 'journal' in --folder, else ~/.local/state/famulus/journal]"
    )
    tables_folder: Path | None = option(
        "Where the pipeline puts its tables, for the dashboard. [default: 'tables' beside the journal]"
    )


@flat
def broker(
    *,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Settings in TOML; flags win over it.")] = None,
    serving: ServingOptions,
    membership: MembershipOptions,
    ports: NetworkOptions,
    show_key: Annotated[
        bool, typer.Option("--show-key", help="Only show the public key of the folder's broker; a new folder gets one.")
    ] = False,
    telling: OutputOptions,
    check: Annotated[bool, typer.Option("--check", help="Only check the settings, and show them.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Run a broker: a supervisor with one dispatcher and some routers, each its own process.

    Clients connect to the frontend port, workers to the backend port. Ctrl-C or SIGTERM drains: no new tasks, and
    the running ones may finish; a second one stops at once.

    With --folder it is a broker of a network: who it is, its ports and its services are in the network's config. With
    --join it becomes one first, in a new folder, and then runs.

    Examples:

    famulus broker --config broker.toml --routers 2

    famulus broker --folder ./b2 --join 10.0.0.7:7103 --secret-file secret --host 10.0.0.8

    famulus broker --folder ./b2 --show-key
    """
    from famulus.broker.settings import load

    if show_key:
        _show_key(membership.folder)
        return
    flags: dict[str, object] = {**asdict(serving), **asdict(ports), **asdict(telling)}
    for name in ("journal_folder", "tables_folder"):
        folder = flags[name]
        flags[name] = str(folder.resolve()) if isinstance(folder, Path) else None
    if membership.join is not None:
        _join(membership, membership.join, load(config, flags))
    from_family: dict[str, object] = {}
    if membership.folder is not None:
        from_network, from_family = _from_folder(membership.folder)
        flags |= from_network
        # That is where others reach it, so that is where it listens, unless somebody says otherwise.
        from_family["host"] = from_network["advertised_host"]
    settings = load(config, flags, from_family)
    if check:
        typer.echo(msgspec.json.format(msgspec.json.encode(settings)).decode())
        return
    set_up_logs(log_level)
    from famulus.broker.supervisor import Supervisor

    Supervisor(settings, herald="famulus.web.herald").run(_say_ready)


def _show_key(folder: Path | None) -> None:
    from famulus.broker.membership import prepare

    if folder is None:
        raise SettingsError("--show-key needs a --folder: that of a broker, or a new one")
    typer.echo(prepare(folder))


def _join(membership: MembershipOptions, address: str, settings: Settings) -> None:
    from famulus.broker.joining import catch_up, join
    from famulus.broker.membership import is_lost, read_secret

    folder, secret_file = membership.folder, membership.secret_file
    if folder is None:
        raise SettingsError("--join needs a --folder, a new one, for what the broker is to keep")
    where = address if "://" in address else f"tcp://{address}"
    say = partial(typer.echo, err=True)
    if is_lost(folder):
        network = catch_up(folder, where, JOIN_S, say)
        say(f"the config of network {network[:12]} has been restored")
        return
    secret = read_secret(secret_file) if secret_file is not None else os.environ.get("FAMULUS_JOIN_SECRET", "")
    place = {
        "family": settings.family if settings.family != "default" else "main",
        "host": settings.advertised_host or settings.host,
        **{port: getattr(settings, port) for port in PORTS},
    }
    joined = join(folder, settings.identity, place, where, secret, JOIN_S, say, membership.network or "")
    say(f"{settings.identity} is a member of network {joined[:12]}")


def _from_folder(folder: Path) -> tuple[dict[str, object], dict[str, object]]:
    """What the network's config says about the broker of this folder, and what it says about its family."""
    from famulus.broker.membership import look

    network, config, broker = look(folder)
    own: dict[str, object] = {
        "folder": str(folder.resolve()),
        "identity": network.identity,
        "family": broker.family,
        "advertised_host": broker.host,
        **{port: getattr(broker, port) for port in PORTS},
    }
    return own, {"drain_ms": config.family(broker.family).drain_ms}


def _say_ready(settings: Settings) -> None:
    book = settings.book()
    count = f"{settings.routers} router{'s' if settings.routers > 1 else ''}"
    typer.echo(
        f"broker {settings.identity} is ready: clients {book.broker.frontend}, workers {book.broker.backend} ({count})"
    )
    if not settings.is_local:
        log = logging.getLogger("famulus")
        log.warning("%s is not loopback, and there is no authentication: whoever reaches it may use it", settings.host)
