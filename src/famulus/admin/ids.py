"""The ids of edits as people write them: abbreviated, like those of commits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from famulus.errors import SettingsError

PREFIX_CHARS_MIN: Final = 6
CHARS_SHOWN: Final = 8


def find(prefix: str, ids: Iterable[str], key: str) -> str:
    """The one edit of this key whose id begins with this prefix."""
    if not re.fullmatch(r"[0-9a-fA-F]{1,64}", prefix):
        raise SettingsError(f"{prefix[:80]!r} is not the id of an edit; famulus config history {key} shows them")
    if len(prefix) < PREFIX_CHARS_MIN:
        raise SettingsError(f"{prefix!r} is too short: an id may be abbreviated to {PREFIX_CHARS_MIN} characters")
    found = sorted(each for each in set(ids) if each.startswith(prefix.lower()))
    if not found:
        raise SettingsError(f"no edit of {key} begins with {prefix!r}; famulus config history {key} shows them")
    if len(found) > 1:
        raise SettingsError(f"{prefix!r} begins {len(found)} edits of {key}: {', '.join(map(_distinct, found))}")
    return found[0]


def short(edit_id: str) -> str:
    return edit_id[:CHARS_SHOWN]


def _distinct(edit_id: str) -> str:
    """Longer than elsewhere, since the usual length was ambiguous."""
    return edit_id[: 2 * CHARS_SHOWN]
