"""`famulus config show`, `get`, `history`, `diff` and `conflicts`: the commands that change nothing."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import UNSET

from famulus.admin.ids import find, short
from famulus.cli.admin.session import AdminSession, to_json
from famulus.cli.admin.words import conflict_lines, difference_lines, history_lines, shown_lines
from famulus.core.config.draft import difference
from famulus.core.steward.answers import KeyHistory
from famulus.errors import FamulusError

KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="Such as service/echo, family/main or broker_state/b1.")
]


def show(
    session: AdminSession,
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="Only keys that begin with this, such as service/.")
    ] = "",
    deleted: Annotated[bool, typer.Option("--deleted", help="Also keys that were deleted.")] = False,
) -> None:
    """Show the brokers and the whole config by kind: what holds, who said so, and what is wrong with it.

    A key with an exclamation mark is in conflict: see `famulus config conflicts`.

    Example: famulus config show service/
    """
    shown = session.administration.show(prefix)
    session.show(shown, *shown_lines(shown, deleted))


def get(session: AdminSession, key: KeyArgument) -> None:
    """Print the value of KEY as JSON, as `famulus config set` takes it. Exit code 1 if it is not set.

    Example: famulus config get service/echo
    """
    view = session.administration.show(key).key(key)
    if not view.is_set:
        raise FamulusError(f"{key} is not set")
    if view.is_in_conflict:
        session.note(f"{key} is in conflict; this is the head that counts")
    facts = {"key": key, "value": view.value, "conflict": view.is_in_conflict, "heads": view.heads}
    session.show(facts, to_json(view.value))


def history(session: AdminSession, key: KeyArgument) -> None:
    """Show every edit of KEY: its id, when it was made, by whom and at which broker, and what it changed.

    Example: famulus config history service/echo
    """
    told = history_of(session, key)
    session.show(told, *history_lines(told))


def diff(
    session: AdminSession,
    key: KeyArgument,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="One or two edits of KEY.")] = None,
) -> None:
    """Show the difference between two edits of KEY; with one ID, between that edit and what holds now.

    Without IDs: between the heads if KEY is in conflict, else what its last edit changed. An ID may be abbreviated to
    6 characters.

    Example: famulus config diff service/echo 3f2a9c 81bd04
    """
    told = history_of(session, key)
    facts = []
    lines = []
    for before, after in _pairs(told, ids or []):
        old = told.get(before).said if before else UNSET
        changes = difference(old, told.get(after).said)
        facts.append({"from": before, "to": after, "difference": changes})
        lines += difference_lines(changes, short(before) or "before", short(after), indent="")
    session.show({"key": key, "differences": facts}, *lines)


def conflicts(session: AdminSession) -> None:
    """Show every key that is in conflict, with its heads: which of them counts meanwhile, and who made them.

    Brokers that could not talk to each other took different edits of one key. Nothing is lost; an edit that you make
    ends the conflict: `famulus config resolve`, or any other edit of that key.
    """
    shown = session.administration.show()
    found = {key: view.heads for key, view in sorted(shown.keys.items()) if view.is_in_conflict}
    lines = [line for key, heads in found.items() for line in conflict_lines(key, heads)]
    session.show({"conflicts": found}, *(lines or ["no conflicts"]))


def history_of(session: AdminSession, key: str) -> KeyHistory:
    told = session.administration.history(key)
    if not told.edits:
        raise FamulusError(f"there is no edit of {key}")
    return told


def _pairs(told: KeyHistory, abbreviated: list[str]) -> list[tuple[str, str]]:
    """Which edits to compare, the older one first."""
    if len(abbreviated) > 2:
        raise typer.BadParameter("two edits can be compared, not more", param_hint="ID")
    named = [find(each, told.ids, told.key) for each in abbreviated]
    heads = [head.id for head in told.heads]
    if len(named) == 2:
        return [(named[0], named[1])]
    if len(named) == 1:
        return [(named[0], head) for head in heads]
    if len(heads) > 1:
        return [(heads[0], other) for other in heads[1:]]
    last = told.get(heads[0])
    return [(parent, last.id) for parent in last.parents] or [("", last.id)]
