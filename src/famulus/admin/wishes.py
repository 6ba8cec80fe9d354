"""What an admin wants of a broker, as drafts made of what was shown. Knows nobody who sends them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from famulus.admin import drafts
from famulus.core.config.draft import Draft
from famulus.core.steward.answers import Shown
from famulus.errors import FamulusError


def state(shown: Shown, identity: str, wished: str, *, force: bool = False) -> list[Draft]:
    """The broker shall be in this state; nothing if it is already. `force`: also if there is no such broker."""
    if not force and not is_there(shown, f"broker/{identity}"):
        raise unknown(shown, identity)
    key = f"broker_state/{identity}"
    present = shown.keys.get(key)
    value = drafts.value_of(present)
    # Other fields may come from a newer version.
    wanted = {**value, "state": wished} if isinstance(value, dict) else {"state": wished}
    if value == wanted and present is not None and not present.is_in_conflict:
        return []
    return [drafts.put(shown, key, wanted)]


def forget(shown: Shown, identity: str) -> list[Draft]:
    """Neither the broker nor its state shall be in the config any more."""
    keys = [key for key in (f"broker/{identity}", f"broker_state/{identity}") if is_there(shown, key)]
    if not keys:
        raise unknown(shown, identity)
    return [drafts.delete(shown, key) for key in keys]


def fields(shown: Shown, key: str, wished: dict[str, Any]) -> list[Draft]:
    """These fields of a key shall be so, and all others stay as they are; nothing if it is so already."""
    present = shown.keys.get(key)
    value = drafts.value_of(present)
    if value is not UNSET and not isinstance(value, dict):
        raise FamulusError(f"{key} has a value without fields; set it by hand: famulus config set {key} ...")
    wanted = {**(value if value is not UNSET else {}), **wished}
    if value == wanted and present is not None and not present.is_in_conflict:
        return []
    return [drafts.put(shown, key, wanted)]


def is_alive(shown: Shown, identity: str) -> bool:
    facts = shown.brokers.get(identity)
    return facts is not None and facts.alive


def is_there(shown: Shown, key: str) -> bool:
    view = shown.keys.get(key)
    return view is not None and (view.is_set or view.is_in_conflict)


def unknown(shown: Shown, identity: str) -> FamulusError:
    known = [key.partition("/")[2] for key in shown.keys if key.startswith("broker/") and is_there(shown, key)]
    return FamulusError(f"there is no broker {identity!r}, but {', '.join(sorted(known)) or 'none'}")
