"""`famulus broker`: run one broker in the foreground."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from famulus.broker.settings import Settings


def broker(
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Settings in TOML; flags win over it.")] = None,
    identity: Annotated[str | None, typer.Option(help="The broker's name. [default: the host's name]")] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen. [default: 127.0.0.1]")] = None,
    frontend_port: Annotated[int | None, typer.Option(help="For clients; 0 is any free port. [default: 7100]")] = None,
    backend_port: Annotated[int | None, typer.Option(help="For workers; 0 is any free port. [default: 7101]")] = None,
    routers: Annotated[int | None, typer.Option(help="Router processes. [default: cores - 2, at least 1]")] = None,
    heartbeat_ms: Annotated[
        int | None, typer.Option(help="Shortest heartbeat; a worker silent for three is lost. [default: 1000]")
    ] = None,
    drain_ms: Annotated[
        int | None, typer.Option(help="How long running tasks may take at the end. [default: 30000]")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the settings, and show them.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Run a broker: a supervisor with one dispatcher and some routers, each its own process.

    Clients connect to the frontend port, workers to the backend port. Ctrl-C or SIGTERM drains: no new tasks, and
    the running ones may finish; a second one stops at once.

    Example: famulus broker --config broker.toml --routers 2
    """
    from famulus.broker.settings import load
    from famulus.cli.logs import set_up_logs

    flags = {
        "identity": identity,
        "host": host,
        "frontend_port": frontend_port,
        "backend_port": backend_port,
        "routers": routers,
        "heartbeat_ms": heartbeat_ms,
        "drain_ms": drain_ms,
    }
    settings = load(config, flags)
    if check:
        _show(settings)
        return
    set_up_logs(log_level)
    from famulus.broker.supervisor import Supervisor

    Supervisor(settings).run(_say_ready)


def _say_ready(settings: Settings) -> None:
    book = settings.book()
    count = f"{settings.routers} router{'s' if settings.routers > 1 else ''}"
    typer.echo(
        f"broker {settings.identity} is ready: clients {book.broker.frontend}, workers {book.broker.backend} ({count})"
    )
    if not settings.is_local:
        log = logging.getLogger("famulus")
        log.warning("%s is not loopback, and there is no authentication: whoever reaches it may use it", settings.host)


def _show(settings: Settings) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(settings)).decode())
