"""`famulus invite`: let another broker join."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def invite(
    folder: Annotated[Path, typer.Argument(help="The folder of a broker of the network.")],
    out: Annotated[Path | None, typer.Option(help="Where to write it. [default: FOLDER.invitation]")] = None,
    days: Annotated[int, typer.Option(help="How many days it is valid.")] = 7,
) -> None:
    """Write an invitation: a file with which another broker joins the network, by way of the broker in FOLDER.

    Whoever has it can make a broker a member until it expires, so keep it as you keep a key.

    Example: famulus invite ./b1 --out b2.invitation --days 1
    """
    from famulus.broker import invitations

    path = out if out is not None else folder.with_name(f"{folder.resolve().name}.invitation")
    invitations.write_invitation(path, invitations.invite(folder, days))
    typer.echo(f"{path} is valid for {days} day{'s' if days != 1 else ''}: famulus broker --folder OTHER --join {path}")
