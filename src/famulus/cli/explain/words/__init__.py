"""The meaning of every word that a user may meet: reasons, outcomes, exit codes, words of the journal and the pipeline.

Each kind of words has a file beside this one. `famulus explain` shows them, and docs/errors.md is made from them
(`famulus explain --markdown`); a test compares the two.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.resources import files
from typing import Final

import msgspec
from msgspec import Struct


class Entry(Struct, frozen=True, kw_only=True):
    """One meaning of one word. Where a word has several, each has an entry of its own, and `when` tells them apart."""

    word: str
    #: Where it appears, if that matters: `with REJECTED`, `to a worker`.
    when: str = ""
    meaning: str
    #: Why it happens; empty if the meaning says it.
    why: str = ""
    #: What to do; empty if there is nothing.
    remedy: str = ""
    #: Whether trying again is safe; empty if there is nothing to try.
    try_again: str = ""
    #: The page below docs that says more.
    page: str


class WordList(Struct, frozen=True):
    """Words of one kind: a file in this folder."""

    #: What one of them is called.
    name: str
    #: The heading for all of them.
    heading: str
    #: What they have in common.
    about: str
    entries: tuple[Entry, ...]
    #: There is little to say about each: on the page, they are a table.
    brief: bool = False
    #: A word alone would not show what it is: on the page, its heading says so.
    named: bool = False


#: In the order of the page.
_FILES: Final = ("outcomes", "reasons", "exit_codes", "fates", "events", "refusals", "audit", "findings")
KINDS: Final = tuple(
    msgspec.toml.decode((files(__package__) / f"{name}.toml").read_bytes(), type=WordList, strict=True)
    for name in _FILES
)


def find(text: str) -> list[tuple[WordList, Entry]]:
    """All meanings of a word, or of a whole reason: what comes after the colon is for people."""
    word = text.strip().partition(":")[0].strip().lower()
    return [(kind, entry) for kind in KINDS for entry in kind.entries if entry.word.lower() == word]


def close_to(text: str) -> list[str]:
    """Words that somebody may have meant."""
    words = {entry.word.lower(): entry.word for kind in KINDS for entry in kind.entries}
    wanted = text.strip().partition(":")[0].strip().lower().replace("-", "_").replace(" ", "_")
    near = get_close_matches(wanted, words, n=3, cutoff=0.6)
    parts = [word for word in words if len(wanted) > 2 and wanted in word]
    return [words[word] for word in dict.fromkeys([*near, *parts])][:5]
