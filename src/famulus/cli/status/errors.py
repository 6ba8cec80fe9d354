"""`famulus errors`: workers that are ignored, for a time because of their faults, or because the config names them."""

from __future__ import annotations

from typing import Annotated

import typer

from famulus.admin import wishes
from famulus.cli.admin.edits import send_wanted
from famulus.cli.admin.session import AdminSession, Wait, new_group
from famulus.cli.admin.words import columns, counted
from famulus.errors import FamulusError


def list_workers(session: AdminSession) -> None:
    """Show the workers that are ignored.

    Those that broke the protocol, with their faults and the seconds that are left; and those that the config names, in
    error_workers of the family or of the broker.

    The list is that of the broker that is asked.
    """
    errors = session.administration.errors()
    rows = [
        (worker.identity, "named in the config", f"by {worker.by}")
        if worker.by
        else (worker.identity, counted(worker.faults, "fault"), _how_long(worker.ignored_s))
        for worker in errors.workers
    ]
    session.show(errors, *(columns(rows, indent="") or ["no worker is ignored"]))


def clear(
    session: AdminSession,
    identity: Annotated[
        str | None, typer.Argument(metavar="IDENTITY", help="The worker's name. [default: all of them]")
    ] = None,
) -> None:
    """Forget the faults of a worker, or of all: it may connect again at once. It also leaves the config's lists.

    Example: famulus errors clear w1
    """
    cleared = session.administration.clear_errors(identity)
    session.show({"cleared": cleared}, "forgiven" if cleared is True else f"{counted(cleared, 'worker')} forgiven")


def add(
    session: AdminSession,
    identity: Annotated[str, typer.Argument(metavar="IDENTITY", help="The worker's name.")],
    family: Annotated[
        str | None,
        typer.Option(help="Whose brokers are to ignore it. [default: the family of the broker that is asked]"),
    ] = None,
    wait: Wait = None,
) -> None:
    """Make all brokers of a family ignore this worker, until it is cleared.

    Example: famulus errors add w1
    """
    shown = session.administration.show("family/")
    key = f"family/{family or shown.family}"
    value = shown.key(key).said
    if not isinstance(value, dict):
        raise FamulusError(f"there is no {key} in the config")
    listed = value.get("error_workers", [])
    # A value that is not a list has no effect: brokers ignore it.
    names = list(dict.fromkeys([*listed, identity])) if isinstance(listed, list) else [identity]
    wanted = wishes.fields(shown, key, {"error_workers": names})
    send_wanted(session, wanted, f"{identity} is on the list of {key} already", wait)


def _how_long(ignored_s: float) -> str:
    return f"ignored for {ignored_s:.0f} s more" if ignored_s else "not ignored now"


app = new_group({"list": list_workers, "add": add, "clear": clear})
