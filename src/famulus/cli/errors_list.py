"""`famulus errors`: workers that kept breaking the protocol, and are ignored for a time."""

from __future__ import annotations

from typing import Annotated

import typer

from famulus.cli.admin_desk import Desk, add_command, new_group

app = new_group("See which workers a broker ignores for their faults, and forgive them.")


def list_workers(desk: Desk) -> None:
    """Show the workers that broke the protocol: how often, and for how many seconds more they are ignored.

    The list is that of the broker that is asked.
    """
    from famulus.cli.admin_words import columns, counted

    errors = desk.administration.errors()
    rows = [
        (worker.identity, counted(worker.faults, "fault"), _how_long(worker.ignored_s)) for worker in errors.workers
    ]
    desk.show(errors, *(columns(rows, indent="") or ["no worker is ignored"]))


def clear(
    desk: Desk,
    identity: Annotated[
        str | None, typer.Argument(metavar="[IDENTITY]", help="The worker's name. [default: all of them]")
    ] = None,
) -> None:
    """Forget the faults of a worker, or of all: it may connect again at once.

    Example: famulus errors clear w1
    """
    from famulus.cli.admin_words import counted

    cleared = desk.administration.clear_errors(identity)
    desk.show({"cleared": cleared}, "forgiven" if cleared is True else f"{counted(cleared, 'worker')} forgiven")


def _how_long(ignored_s: float) -> str:
    return f"ignored for {ignored_s:.0f} s more" if ignored_s else "not ignored now"


add_command(app, "list", list_workers)
add_command(app, "clear", clear)
