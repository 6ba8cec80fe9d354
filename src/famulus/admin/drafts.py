"""What an admin wants to change, based on what a broker has shown. Each draft names the heads that were seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from famulus.admin import ids
from famulus.core.config import edit as edits
from famulus.core.config import schema
from famulus.core.config.draft import Author, Draft, make
from famulus.core.config.edit import PARENTS_MAX
from famulus.core.steward.answers import KeyHistory, PastEdit, Shown, is_secret
from famulus.errors import FamulusError, ProtocolError, SettingsError


@dataclass(frozen=True, slots=True)
class ValueWarnings:
    """What brokers will think of a value."""

    warnings: tuple[str, ...] = ()
    #: None of it would have any effect.
    ignored: bool = False


def put(shown: Shown, key: str, value: Any) -> Draft:
    draft = Draft(key, "PUT", value, parents_of(shown, key))
    _check(draft)
    return draft


def refuse_secrets(key: str) -> None:
    """A hash on a command line ends up in the shell's history, and everybody sees it in the list of processes."""
    if is_secret(key):
        raise SettingsError("admins and their passwords are changed by: famulus admins")


def delete(shown: Shown, key: str) -> Draft:
    if not shown.key(key).is_there:
        raise FamulusError(f"{key} is not set")
    return Draft(key, "DEL", None, parents_of(shown, key))


def rollback(history: KeyHistory, abbreviated: str) -> Draft:
    """Brings back what an edit said."""
    old = history.get(ids.find(abbreviated, history.ids, history.key))
    return _again(history, old)


def resolve(history: KeyHistory, abbreviated: str) -> Draft:
    """Keeps what one of the heads says, and ends the conflict."""
    heads = history.heads
    chosen = ids.find(abbreviated, [head.id for head in heads], history.key)
    return _again(history, history.get(chosen))


def _again(history: KeyHistory, old: PastEdit) -> Draft:
    if old.op == "PUT" and is_secret(history.key):
        raise SettingsError("hashes of passwords do not leave the brokers; give a new one: famulus admins passwd")
    return Draft(history.key, old.op, old.value, _sorted(head.id for head in history.heads))


def with_parents(draft: Draft, history: KeyHistory, abbreviated: Iterable[str]) -> Draft:
    """The same draft on other parents, as seen earlier. A full id may be one that this broker does not know yet."""
    parents = [
        each.lower() if len(each) == 64 and each.lower() not in history.ids else ids.find(each, history.ids, draft.key)
        for word in abbreviated
        for each in word.split(",")
    ]
    changed = Draft(draft.key, draft.op, draft.value, _sorted(parents))
    _check(changed)
    return changed


def parents_of(shown: Shown, key: str) -> tuple[str, ...]:
    return _sorted(head.id for head in shown.key(key).heads)


def doubts(draft: Draft) -> ValueWarnings:
    if draft.op == "DEL":
        return ValueWarnings()
    view = schema.read(schema.subject(draft.key), draft.value)
    return ValueWarnings(view.warnings, view.value is None)


def _sorted(parents: Iterable[str]) -> tuple[str, ...]:
    """As brokers compare them. If there are more than an edit can name, several edits merge them step by step."""
    return tuple(sorted(set(parents))[:PARENTS_MAX])


def _check(draft: Draft) -> None:
    """Checks that an edit can be made from it: a broker would check it too, but only after a password was typed."""
    try:
        edits.write(make(draft, Author("admin"), "0" * 64, "broker", "", 0, "0" * 16))
    except ProtocolError as error:
        raise SettingsError(f"{draft.key[:80]}: {str(error).partition(': ')[2]}") from None
