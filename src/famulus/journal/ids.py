"""The ids of tasks as people write them: in full, by their beginning, or short. Knows no journal.

All ids that a broker makes in one life have the same beginning and count up at the end, so a beginning alone identifies
nothing. What is shown is a beginning and an end with two dots between them: `7f3a09c1..2c` is the id that begins with
`7f3a09c1` and whose last part is `00000000002c`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DOTS: Final = ".."
_HEAD_CHARS: Final = 8
_LAST_CHARS: Final = 12


def short(message_id: str) -> str:
    """Enough to find the task again. An id that a client made up is left as it is."""
    if _UUID.fullmatch(message_id) is None:
        return message_id
    return f"{message_id[:_HEAD_CHARS]}{_DOTS}{message_id[-_LAST_CHARS:].lstrip('0') or '0'}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody wrote: the id itself, its beginning, or its beginning and its end."""

    text: str
    #: The two parts of a short id; empty if it is not one.
    head: str = ""
    end: str = ""


def wanted(text: str) -> Wanted:
    head, dots, end = text.partition(_DOTS)
    if not dots or not end:
        return Wanted(text)
    if re.fullmatch(rf"[0-9a-f]{{1,{_LAST_CHARS}}}", end):
        # Otherwise `2c` would also match the end of `12c`.
        end = "-" + end.rjust(_LAST_CHARS, "0")
    return Wanted(text, head, end)
