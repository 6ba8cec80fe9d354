"""What an admin wants of a broker, as drafts made of what was shown. Knows nobody who sends them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from famulus.admin import drafts
from famulus.core.config.draft import Draft, difference
from famulus.core.steward.answers import Shown
from famulus.errors import FamulusError


def put(shown: Shown, key: str, value: Any) -> list[Draft]:
    """Gives the key this value; nothing if it has it already, and undisputed."""
    present = shown.key(key)
    if not present.is_in_conflict and not difference(present.said, value):
        return []
    return [drafts.put(shown, key, value)]


def state(shown: Shown, identity: str, wished: str, *, force: bool = False) -> list[Draft]:
    """Puts the broker into this state. `force`: also if there is no such broker."""
    if not force and not shown.key(f"broker/{identity}").is_there:
        raise unknown(shown, identity)
    key = f"broker_state/{identity}"
    value = shown.key(key).said
    # Other fields may come from a newer version.
    return put(shown, key, {**value, "state": wished} if isinstance(value, dict) else {"state": wished})


def forget(shown: Shown, identity: str) -> list[Draft]:
    """Takes the broker and its state out of the config."""
    keys = [key for key in (f"broker/{identity}", f"broker_state/{identity}") if shown.key(key).is_there]
    if not keys:
        raise unknown(shown, identity)
    return [drafts.delete(shown, key) for key in keys]


def fields(shown: Shown, key: str, wished: dict[str, Any]) -> list[Draft]:
    """Gives fields of a key these values; all others stay as they are."""
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
