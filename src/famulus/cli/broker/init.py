"""`famulus init`: make a network of one broker."""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from famulus.cli.options import flat, option


@dataclass(frozen=True)
class PortOptions:
    frontend_port: int = option("For clients.", default=7100)
    backend_port: int = option("For workers.", default=7101)
    config_pub_port: int = option("For changes of the config.", default=7102)
    peer_port: int = option("For other brokers.", default=7103)


@flat
def init(
    *,
    folder: Annotated[Path, typer.Argument(help="A new folder, for the broker's key, its config and its secrets.")],
    identity: Annotated[str | None, typer.Option(help="The broker's name. [default: the host's name]")] = None,
    family: Annotated[str, typer.Option(help="The family that the broker belongs to.")] = "main",
    admin: Annotated[str, typer.Option(help="The name of the family's first admin.")] = "admin",
    host: Annotated[str, typer.Option(help="How other brokers, clients and workers reach it.")] = "127.0.0.1",
    ports: PortOptions,
    secret_file: Annotated[
        Path | None, typer.Option(help="The secret for those who join, if they have it already. [default: a new one]")
    ] = None,
) -> None:
    """Make a network: a first broker with its key, its family and an admin.

    The admin's password is asked for, or taken from FAMULUS_ADMIN_PASSWORD. Other brokers join with the secret in
    FOLDER/join.secret; whoever has it can make a broker a member, so keep it as you keep a key.

    Example: famulus init ./b1 --family main --admin ada
    """
    from famulus.broker.folder import Folder
    from famulus.broker.founding import found
    from famulus.broker.membership import read_secret
    from famulus.core.config.schema import named_family

    name, family = identity or socket.gethostname(), named_family(family)
    place = {"family": family, "host": host, **asdict(ports)}
    secret = read_secret(secret_file) if secret_file is not None else None
    network, _ = found(folder, name, place, admin, _password(admin), secret)
    typer.echo(f"network {network[:12]} is made: broker {name} of family {family}, admin {admin}")
    typer.echo(f"start it:          famulus broker --folder {folder}")
    typer.echo(f"let others join:   famulus broker --folder OTHER --join {host}:{ports.peer_port}")
    typer.echo(f"                   with the secret in {Folder(folder).secret}")


def _password(admin: str) -> str:
    given = os.environ.get("FAMULUS_ADMIN_PASSWORD")
    if given:
        return given
    answer: str = typer.prompt(f"Password for {admin}", hide_input=True, confirmation_prompt=True)
    return answer
