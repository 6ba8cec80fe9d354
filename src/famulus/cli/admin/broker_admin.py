"""`famulus broker-admin`: what an admin wants the brokers of a network to do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from famulus.admin import drafts, wishes
from famulus.cli.admin.edits import send, send_wanted
from famulus.cli.admin.session import AdminSession, Wait, new_group
from famulus.core.config import schema
from famulus.core.config.schema import Broker
from famulus.core.steward.answers import Shown
from famulus.core.steward.principals import public_key_of
from famulus.errors import FamulusError, SettingsError
from famulus.net.addresses import address

Identity = Annotated[str, typer.Argument(metavar="IDENTITY", help="The broker's name.")]
PublicKey = Annotated[str, typer.Argument(metavar="KEY", help="The public key of a broker.")]
Force = Annotated[bool, typer.Option("--force", help="Also if there is no such broker.")]


def enable(session: AdminSession, identity: Identity, force: Force = False, wait: Wait = None) -> None:
    """Let a broker serve (again): its state becomes active.

    Example: famulus broker-admin enable b2
    """
    _set_state(session, identity, "active", force, wait)


def disable(session: AdminSession, identity: Identity, force: Force = False, wait: Wait = None) -> None:
    """Make a broker refuse tasks and workers. It still hears admins, so that it can be enabled again.

    Example: famulus broker-admin disable b2
    """
    _set_state(session, identity, "disabled", force, wait)


def drain(session: AdminSession, identity: Identity, force: Force = False, wait: Wait = None) -> None:
    """Make a broker refuse new tasks and finish those that it has.

    Example: famulus broker-admin drain b2 --wait 10
    """
    _set_state(session, identity, "draining", force, wait)


def forget(
    session: AdminSession,
    identity: Identity,
    force: Annotated[bool, typer.Option("--force", help="Also if it is alive.")] = False,
    wait: Wait = None,
) -> None:
    """Delete a broker and its state from the config. Should it come back, the others no longer know it.

    Example: famulus broker-admin forget b2
    """
    shown = session.administration.show("broker")
    if wishes.is_alive(shown, identity) and not force:
        raise FamulusError(f"{identity} is alive: stop it first, or give --force")
    send(session, wishes.forget(shown, identity), wait)


def trust(
    session: AdminSession,
    key: PublicKey,
    identity: Annotated[str, typer.Option(help="The only name that it may take. [default: any that is free]")] = "",
    family: Annotated[
        str | None, typer.Option(help="The family that it joins. [default: that of the broker that is asked]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write an invitation for it: without a secret, only it can use that.")
    ] = None,
    wait: Wait = None,
) -> None:
    """Let the broker that has this key join without the network's secret.

    It shows its key with famulus broker --folder FOLDER --show-key, and joins with the invitation that you write here.

    Example: famulus broker-admin trust 5f8a... --identity b2 --out b2.invitation
    """
    _check_key(key)
    shown = session.administration.show("")
    if out is not None:
        _write_invitation(shown, out)
    wished = {"family": family or shown.family, **({"identity": identity} if identity else {})}
    send_wanted(session, wishes.put(shown, f"trusted_key/{key}", wished), "this key is trusted already", wait)


def _write_invitation(shown: Shown, out: Path) -> None:
    """To the broker that answers."""
    from famulus.broker.invitations import Invitation, write_invitation

    broker = schema.read(schema.subject(f"broker/{shown.broker}"), shown.key(f"broker/{shown.broker}").said).value
    if not isinstance(broker, Broker):
        raise FamulusError(f"the config does not say where {shown.broker} is")
    at, key = address(broker.host, broker.peer_port), public_key_of(broker)
    write_invitation(out, Invitation(at, shown.network, key.hex()))


def distrust(session: AdminSession, key: PublicKey, wait: Wait = None) -> None:
    """Stop trusting this key: a broker that has it can no longer join. One that has joined stays: see forget.

    Example: famulus broker-admin distrust 5f8a...
    """
    _check_key(key)
    send(session, [drafts.delete(session.administration.show("trusted_key/"), f"trusted_key/{key}")], wait)


def _check_key(key: str) -> None:
    if len(key) != 64 or not set(key) <= set("0123456789abcdef"):
        raise SettingsError("a public key is 64 digits from 0 to f, as famulus broker --show-key shows it")


def _set_state(session: AdminSession, identity: str, state: str, force: bool, wait: float | None) -> None:
    wanted = wishes.state(session.administration.show("broker"), identity, state, force=force)
    send_wanted(session, wanted, f"{identity} is {state} already", wait)


app = new_group({command.__name__: command for command in (enable, disable, drain, forget, trust, distrust)})
