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

from famulus.cli import suggestions
from famulus.cli.logs import set_up_logs
from famulus.cli.options import flat, option
from famulus.errors import SettingsError

if TYPE_CHECKING:
    from famulus.broker.invitations import Invitation
    from famulus.broker.settings import Settings


#: How long the network may take to let a broker join.
JOIN_S = 20.0
#: Those that others have to know.
PORTS = ("frontend_port", "backend_port", "config_pub_port", "peer_port")
#: Where a broker can listen, but nobody can reach it by that.
EVERYWHERE = ("0.0.0.0", "::", "*")


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
    plain_on_purpose: bool | None = option(
        "Let others in from other machines without keys or TLS: something else protects the way, such as a VPN.",
        "--plain-on-purpose",
    )


@dataclass(frozen=True)
class MembershipOptions:
    """Membership in a network."""

    folder: Path | None = option("The folder of a broker of a network, made by 'famulus init' or --join.")
    join: str | None = option(
        "Join a network: with an invitation, or the one of the broker with this peer port.", metavar="FILE|HOST:PORT"
    )
    secret_file: Path | None = option(
        "With --join HOST:PORT: the network's secret. Without it, the broker's key has to be trusted there. "
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
    http_certificate: Path | None = option(
        "Its certificate, in PEM: it speaks HTTPS. [default: tls.crt in --folder, if --http-host is not loopback]"
    )
    http_key: Path | None = option("The key of the certificate, in PEM. [default: tls.key in --folder, likewise]")
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
    new_certificate: Annotated[
        bool,
        typer.Option("--new-certificate", help="Only make a new certificate for the HTTP port of the folder's broker."),
    ] = False,
    telling: OutputOptions,
    check: Annotated[bool, typer.Option("--check", help="Only check the settings, and show them.")] = False,
    log_level: Annotated[
        str, typer.Option(help="debug, info, warning or error.", autocompletion=suggestions.log_levels)
    ] = "info",
) -> None:
    """Run a broker: a supervisor with one dispatcher and some routers, each its own process.

    Clients connect to the frontend port, workers to the backend port. Ctrl-C or SIGTERM drains: no new tasks, and
    the running ones may finish; a second one stops at once.

    With --folder it is a broker of a network: who it is, its ports and its services are in the network's config. With
    --join it becomes one first, in a new folder, and then runs.

    Examples:

    famulus broker --config broker.toml --routers 2

    famulus broker --folder ./b2 --join b1.invitation --host 10.0.0.8

    famulus broker --folder ./b2 --show-key
    """
    from famulus.broker.settings import load
    from famulus.broker.tls import check_http, with_own_certificate

    if new_certificate:
        _make_certificate(membership.folder, telling.http_host)
        return
    if show_key:
        _show_key(membership.folder)
        return
    flags: dict[str, object] = {**asdict(serving), **asdict(ports), **asdict(telling)}
    for name in ("journal_folder", "tables_folder", "http_certificate", "http_key"):
        path = flags[name]
        flags[name] = str(path.resolve()) if isinstance(path, Path) else None
    if membership.join is not None:
        _join(membership, membership.join, load(config, flags))
    from_family: dict[str, object] = {}
    if membership.folder is not None:
        from_network, from_family = _from_folder(membership.folder)
        flags |= from_network
        # That is where others reach it, so that is where it listens, unless somebody says otherwise.
        from_family["host"] = from_network["advertised_host"]
    settings = with_own_certificate(load(config, flags, from_family))
    check_http(settings)
    if check:
        typer.echo(msgspec.json.format(msgspec.json.encode(settings)).decode())
        return
    _check_reach(settings)
    set_up_logs(log_level)
    from famulus.broker.supervisor import Supervisor

    Supervisor(settings, herald="famulus.web.herald").run(_say_ready)


def _show_key(folder: Path | None) -> None:
    from famulus.broker.membership import prepare

    if folder is None:
        raise SettingsError("--show-key needs a --folder: that of a broker, or a new one")
    typer.echo(prepare(folder))


def _make_certificate(folder: Path | None, http_host: str | None) -> None:
    from famulus.broker.certificate import make_certificate
    from famulus.broker.folder import Folder
    from famulus.broker.membership import look

    if folder is None:
        raise SettingsError("--new-certificate needs a --folder: that of a broker")
    _, _, broker = look(folder)
    fingerprint = make_certificate(Folder(folder), [broker.host, *([http_host] if http_host else [])])
    typer.echo(f"the new certificate has the SHA-256 fingerprint {fingerprint}; it counts when the broker starts again")


def _join(membership: MembershipOptions, address: str, settings: Settings) -> None:
    from famulus.broker.joining import catch_up, join
    from famulus.broker.membership import is_lost

    folder = membership.folder
    if folder is None:
        raise SettingsError("--join needs a --folder, a new one, for what the broker is to keep")
    say = partial(typer.echo, err=True)
    invitation = _invitation(membership, address)
    if is_lost(folder):
        network = catch_up(folder, invitation, JOIN_S, say)
        say(f"the config of network {network[:12]} has been restored")
        return
    place = {
        "family": settings.family if settings.family != "default" else "main",
        "host": settings.advertised_host or settings.host,
        **{port: getattr(settings, port) for port in PORTS},
    }
    joined = join(folder, settings.identity, place, invitation, JOIN_S, say)
    say(f"{settings.identity} is a member of network {joined[:12]}")


def _invitation(membership: MembershipOptions, wish: str) -> Invitation:
    """From a file, or from what was typed instead."""
    from famulus.broker.invitations import Invitation, read_invitation
    from famulus.broker.membership import read_secret

    if ":" not in wish or Path(wish).is_file():
        return read_invitation(Path(wish))
    file = membership.secret_file
    secret = read_secret(file) if file is not None else os.environ.get("FAMULUS_JOIN_SECRET", "")
    return Invitation(wish if "://" in wish else f"tcp://{wish}", membership.network or "", secret=secret)


def _check_reach(settings: Settings) -> None:
    """Without keys, a broker is reached from its own machine only, unless somebody says that this is on purpose."""
    if settings.is_local or settings.plain_on_purpose:
        return
    if settings.folder:
        from famulus.broker.membership import look

        _, config, broker = look(Path(settings.folder))
        if broker.family not in config.families or config.family(broker.family).keys != "none":
            return
        whose, remedy = f"family {broker.family} has no", f"famulus config set family/{broker.family} keys=remote"
    else:
        whose = "there are no"
        remedy = f"make a network with some: famulus init FOLDER --host {settings.advertised_host or settings.host}"
    raise SettingsError(
        f"host: {settings.host} is reached from other machines, and {whose} keys; {remedy}; or give "
        "--plain-on-purpose, if that is private by other means"
    )


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
    log = logging.getLogger("famulus")
    if settings.plain_on_purpose:
        log.warning("plain on purpose: whoever reaches %s may come without a key", settings.host)
    if doubt := _out_of_reach(settings):
        log.warning("%s", doubt)


def _out_of_reach(settings: Settings) -> str:
    """Why those for whom it listens do not find it; empty if they do."""
    from famulus.broker.settings import is_loopback

    if settings.is_local or not is_loopback(settings.advertised_host):
        return ""
    told = f"others are told that this broker is at {settings.advertised_host}, where only this machine reaches it"
    where = "ADDRESS" if settings.host in EVERYWHERE else settings.host
    remedy = f"say where it is: famulus config set broker/{settings.identity} host={where}"
    return f"{told}; {remedy}; then make passes and invitations again, which name that address, too"
