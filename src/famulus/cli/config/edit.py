"""`famulus config set`, `unset`, `rollback` and `resolve`: each makes one edit of one key."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import UNSET

from famulus.admin import drafts, typed, wishes
from famulus.admin.ids import short
from famulus.cli.admin.edits import send, tell_unchanged
from famulus.cli.admin.session import AdminSession, Force, Wait
from famulus.cli.config.look import KeyArgument, history_of
from famulus.core.config.draft import Draft, difference
from famulus.errors import FamulusError, SettingsError

Parents = Annotated[
    list[str] | None,
    typer.Option(metavar="ID", help="A head that you saw earlier; may be repeated. [default: the present heads]"),
]


def set_value(
    session: AdminSession,
    key: KeyArgument,
    value: Annotated[list[str], typer.Argument(metavar="VALUE", help="JSON, a text, or fields as NAME=VALUE.")],
    parents: Parents = None,
    force: Force = False,
    wait: Wait = None,
) -> None:
    """Set KEY to a value, or change single fields of the value that it has.

    VALUE is JSON, or else a plain text. NAME=VALUE changes one field, NAME= takes it away, and
    default_service.NAME=VALUE changes a field of an object inside.

    The edit names the heads of KEY that this command saw, or those of --parents. If somebody else was faster, nothing
    is changed, the difference is shown, and the exit code is 5.

    Examples:

      famulus config set service/echo timeout_ms=5000 delivery=at_least_once

      famulus config set family/london '{"fallback_families": ["paris"]}'
    """
    drafts.refuse_secrets(key)
    shown = session.administration.show(key)
    draft = drafts.put(shown, key, typed.read(value, shown.key(key).said))
    if parents:
        draft = drafts.with_parents(draft, session.administration.history(key), parents)
    if draft.parents == drafts.parents_of(shown, key) and not wishes.put(shown, key, draft.value):
        return tell_unchanged(session, f"{key} is that already")
    return send(session, [draft], wait, force=force)


def unset(session: AdminSession, key: KeyArgument, parents: Parents = None, wait: Wait = None) -> None:
    """Delete KEY. Its history stays, and `famulus config rollback` brings it back.

    Example: famulus config unset service/echo
    """
    draft = drafts.delete(session.administration.show(key), key)
    if parents:
        draft = drafts.with_parents(draft, session.administration.history(key), parents)
    send(session, [draft], wait)


def rollback(
    session: AdminSession,
    key: KeyArgument,
    edit_id: Annotated[str, typer.Argument(metavar="ID", help="An edit of KEY; 6 characters are enough.")],
    force: Force = False,
    wait: Wait = None,
) -> None:
    """Bring back what an earlier edit of KEY said. This makes a new edit: nothing is undone.

    Example: famulus config rollback service/echo 3f2a9c
    """
    told = history_of(session, key)
    draft = drafts.rollback(told, edit_id)
    (head, *others) = told.heads
    wished = draft.value if draft.op == "PUT" else UNSET
    if not others and not difference(head.said, wished):
        return tell_unchanged(session, f"{key} is as {short(edit_id)} says")
    return send(session, [draft], wait, force=force)


def resolve(
    session: AdminSession,
    key: KeyArgument,
    choose: Annotated[str | None, typer.Option(metavar="ID", help="The head to keep.")] = None,
    value: Annotated[str | None, typer.Option(metavar="JSON", help="A value to set instead.")] = None,
    force: Force = False,
    wait: Wait = None,
) -> None:
    """End the conflict of KEY: keep one of its heads, or set another value.

    `famulus config conflicts` shows the heads, `famulus config diff KEY` their difference.

    Example: famulus config resolve service/echo --choose 3f2a9c
    """
    if (choose is None) == (value is None):
        raise SettingsError("say which head to keep with --choose, or which value to set with --value")
    send(session, [_resolving(session, key, choose, value)], wait, force=force)


def _resolving(session: AdminSession, key: str, choose: str | None, value: str | None) -> Draft:
    if choose is not None:
        told = history_of(session, key)
        if len(told.heads) < 2:
            raise FamulusError(f"{key} is not in conflict")
        return drafts.resolve(told, choose)
    drafts.refuse_secrets(key)
    shown = session.administration.show(key)
    if not shown.key(key).is_in_conflict:
        raise FamulusError(f"{key} is not in conflict")
    return drafts.put(shown, key, typed.read_value(value or ""))
