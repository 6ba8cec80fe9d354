"""`famulus init`: make a network of one broker."""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from famulus.cli.options import flat, option
from famulus.errors import SettingsError


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
    keys: Annotated[
        str, typer.Option(help="Who needs a key: remote (those from other machines), all, or none.")
    ] = "remote",
    ports: PortOptions,
    secret_file: Annotated[
        Path | None, typer.Option(help="The secret for those who join, if they have it already. [default: a new one]")
    ] = None,
) -> None:
    """Make a network: a first broker with its key, its family and an admin; and an invitation for the next broker.

    The admin's password is asked for, or taken from FAMULUS_ADMIN_PASSWORD. Other brokers join with the invitation in
    FOLDER.invitation; whoever has it can make a broker a member, so keep it as you keep a key.

    Example: famulus init ./b1 --admin ada --host 10.0.0.7
    """
    from famulus.broker.folder import Folder
    from famulus.broker.founding import found
    from famulus.broker.invitations import DAYS, invite, write_invitation
    from famulus.broker.membership import read_secret
    from famulus.broker.tls import fingerprint
    from famulus.core.config.schema import Keys, named_family
    from famulus.net.addresses import is_loopback

    if keys not in get_args(Keys):
        raise typer.BadParameter(f"{keys!r} is not one of {', '.join(get_args(Keys))}", param_hint="--keys")
    name, family = identity or socket.gethostname(), named_family(family)
    place = {"family": family, "host": host, **asdict(ports)}
    secret = read_secret(secret_file) if secret_file is not None else None
    if not Folder(folder).is_empty:
        raise SettingsError(f"{folder}: is not empty; a new broker needs a folder of its own")
    # Beside the folder, and not in it: it is to be carried to another machine.
    invitation = folder.with_name(f"{folder.resolve().name}.invitation")
    if invitation.exists():
        raise SettingsError(f"{invitation}: is there already, and the invitation to this network belongs there")
    network, _ = found(folder, name, place, admin, _password(admin), secret, cast(Keys, keys))
    write_invitation(invitation, invite(folder))
    at = "" if host == "127.0.0.1" and ports.frontend_port == 7100 else f" --broker {host}:{ports.frontend_port}"
    typer.echo(f"network {network[:12]} is made: broker {name} of family {family}, admin {admin}")
    typer.echo(f"its certificate:   SHA-256 {fingerprint(Folder(folder).certificate)}")
    if is_loopback(host):
        typer.echo("it can be reached: from this machine only, and so say all passes; for others: --host ADDRESS")
    typer.echo(f"start it:          famulus broker --folder {folder}")
    typer.echo(f"let others join:   famulus broker --folder OTHER --join {invitation}   (valid for {DAYS} days)")
    typer.echo(f"let somebody in:   famulus pass new NAME --call 'SERVICE' --out NAME.pass --user {admin}{at}")


def _password(admin: str) -> str:
    given = os.environ.get("FAMULUS_ADMIN_PASSWORD")
    if given:
        return given
    answer: str = typer.prompt(f"Password for {admin}", hide_input=True, confirmation_prompt=True)
    return answer
