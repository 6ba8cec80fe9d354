"""What an admin wants a broker to do, as drafts based on what was shown. Does not know who sends them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from famulus.admin import drafts
from famulus.core.config.draft import Draft, difference
from famulus.core.steward.answers import Shown
from famulus.errors import FamulusError


def put(shown: Shown, key: str, value: Any) -> list[Draft]:
    """Gives the key this value; no drafts if it already has it and is not in conflict."""
    present = shown.key(key)
    if not present.is_in_conflict and not difference(present.said, value):
        return []
    return [drafts.put(shown, key, value)]


def state(shown: Shown, identity: str, wished: str, *, force: bool = False) -> list[Draft]:
    """Puts the broker into this state. `force`: even if there is no such broker."""
    if not force and not shown.key(f"broker/{identity}").is_there:
        raise unknown(shown, identity)
    key = f"broker_state/{identity}"
    value = shown.key(key).said
    # Keep other fields: they may come from a newer version.
    return put(shown, key, {**value, "state": wished} if isinstance(value, dict) else {"state": wished})


def forget(shown: Shown, identity: str) -> list[Draft]:
    """Removes the broker and its state from the config."""
    keys = [key for key in (f"broker/{identity}", f"broker_state/{identity}") if shown.key(key).is_there]
    if not keys:
        raise unknown(shown, identity)
    return [drafts.delete(shown, key) for key in keys]


def fields(shown: Shown, key: str, wished: dict[str, Any]) -> list[Draft]:
    """Gives these fields of a key these values; all other fields stay as they are."""
    value = shown.key(key).said
    if value is not UNSET and not isinstance(value, dict):
        raise FamulusError(f"{key} has a value without fields; set it by hand: famulus config set {key} ...")
    return put(shown, key, {**(value if value is not UNSET else {}), **wished})


def is_alive(shown: Shown, identity: str) -> bool:
    facts = shown.brokers.get(identity)
    return facts is not None and facts.alive


def unknown(shown: Shown, identity: str) -> FamulusError:
    known = [key.partition("/")[2] for key, view in shown.keys.items() if key.startswith("broker/") and view.is_there]
    return FamulusError(f"there is no broker {identity!r}; there is {', '.join(sorted(known)) or 'none'}")
