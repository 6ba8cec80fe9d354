"""`famulus admins`: who may change what, and their passwords."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from famulus.admin import drafts
from famulus.admin.secret import Secret
from famulus.cli.admin.edits import send, tell_accepted
from famulus.cli.admin.passwords import ask_password, read_password
from famulus.cli.admin.session import AdminSession, Wait, new_group
from famulus.cli.admin.words import columns, instant
from famulus.core.config.clock import time_ms
from famulus.core.config.schema import Subject, subject
from famulus.core.steward.answers import Key, Shown
from famulus.errors import FamulusError, SettingsError

Name = Annotated[str, typer.Argument(metavar="NAME", help="The admin's name.")]
Family = Annotated[str | None, typer.Option(help="The admin's family. [default: that of the broker that is asked]")]
NewPasswordFile = Annotated[
    Path | None, typer.Option(help="Its first line is the new password. [default: a question, twice]")
]


def list_admins(
    session: AdminSession, family: Annotated[str | None, typer.Option(help="Only those of this family.")] = None
) -> None:
    """Show all admins: their families, and who set their passwords and when."""
    shown = session.administration.show("admin/" if family is None else f"admin/{family}/")
    admins = []
    rows = []
    for key, view in sorted(shown.keys.items()):
        head = max(view.heads, key=lambda head: head.hlc, default=None)
        if head is None or not view.is_there:
            continue
        owner, _, name = key.removeprefix("admin/").rpartition("/")
        facts = {"family": owner, "name": name, "author": head.author, "time_ms": time_ms(head.hlc)}
        admins.append({**facts, "may": view.is_set, "conflict": view.is_in_conflict})
        rows.append((owner, name, f"since {instant(time_ms(head.hlc))} by {head.author}", _flaw(view)))
    session.show({"admins": admins}, *(columns(rows, indent="") or ["no admins"]))


def add(
    session: AdminSession,
    name: Name,
    family: Family = None,
    new_password_file: NewPasswordFile = None,
    wait: Wait = None,
) -> None:
    """Make NAME an admin of a family, with a password that you give.

    Example: famulus admins add ben --family london
    """
    shown, key, owner = _look(session, name, family)
    if shown.key(key).is_set:
        raise FamulusError(f"{name} is an admin of {owner} already; famulus admins passwd changes the password")
    _set_password(session, shown, owner, name, new_password_file, wait)


def passwd(
    session: AdminSession,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The admin's name. [default: yourself]")] = None,
    family: Family = None,
    new_password_file: NewPasswordFile = None,
    wait: Wait = None,
) -> None:
    """Change the password of an admin: your own, or that of somebody else in your family.

    Example: famulus admins passwd --family london
    """
    name = name or session.user
    shown, key, owner = _look(session, name, family)
    if not shown.key(key).is_there:
        raise FamulusError(f"{name} is not an admin of {owner}; famulus admins add makes one")
    _set_password(session, shown, owner, name, new_password_file, wait)


def remove(
    session: AdminSession,
    name: Name,
    family: Family = None,
    force: Annotated[bool, typer.Option("--force", help="Even if that is you.")] = False,
    wait: Wait = None,
) -> None:
    """Take the rights of an admin away from NAME.

    Example: famulus admins remove ben --family london
    """
    shown, key, owner = _look(session, name, family)
    if not shown.key(key).is_there:
        raise FamulusError(f"{name} is not an admin of {owner}")
    myself = (name, owner) == (session.user, shown.family)
    if myself and not force:
        raise FamulusError("that is you: afterwards this password is worth nothing; give --force if you mean it")
    # Brokers do not answer somebody who is no longer an admin.
    send(session, [drafts.delete(shown, key)], None if myself else wait)


def _look(session: AdminSession, name: str, family: str | None) -> tuple[Shown, str, str]:
    """The admins that there are, the key of this one, and its family."""
    shown = session.administration.show("admin/")
    owner = family or shown.family
    if not owner:
        raise SettingsError("of which family? give --family")
    key = f"admin/{owner}/{name}"
    if subject(key) != Subject("admin", name, owner):
        raise SettingsError(f"{name!r} cannot be the name of an admin: it has a slash, or is empty or too long")
    return shown, key, owner


def _set_password(
    session: AdminSession, shown: Shown, family: str, name: str, new_password_file: Path | None, wait: float | None
) -> None:
    password = _new_password(name, new_password_file)
    parents = drafts.parents_of(shown, f"admin/{family}/{name}")
    accepted = session.administration.set_password(family, name, password, parents)
    if (name, family) == (session.user, shown.family):
        session.password = password  # the broker no longer accepts the old one
    tell_accepted(session, accepted, wait)


def _new_password(name: str, file: Path | None) -> Secret:
    if file is not None:
        return read_password(file)
    remedy = "give --new-password-file"
    password = ask_password(f"new password of {name}: ", remedy)
    if ask_password("once more: ", remedy).reveal() != password.reveal():
        raise SettingsError("these are two different passwords; nothing was changed")
    return password


def _flaw(view: Key) -> str:
    if not view.is_in_conflict:
        return ""
    return "in conflict" if view.is_set else "in conflict, and may do nothing until it is resolved"


app = new_group({"list": list_admins, "add": add, "remove": remove, "passwd": passwd})
