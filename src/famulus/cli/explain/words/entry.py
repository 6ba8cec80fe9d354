"""What is said about one word that Famulus uses: the same in a terminal and on the page docs/errors.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One meaning of one word. Where a word has several, each has an entry of its own, and `when` tells them apart."""

    word: str
    #: Where it stands, if that matters: `with REJECTED`, `to a worker`.
    when: str
    meaning: str
    #: Why it happens; empty if the meaning says it.
    why: str
    #: What to do; empty if there is nothing.
    remedy: str
    #: Whether trying again is safe; empty if there is nothing to try.
    again: str
    #: The page below docs that tells more.
    page: str

    def as_dict(self) -> dict[str, str]:
        return {
            "word": self.word,
            "when": self.when,
            "meaning": self.meaning,
            "why": self.why,
            "remedy": self.remedy,
            "try_again": self.again,
            "page": f"docs/{self.page}",
        }


@dataclass(frozen=True, slots=True)
class Kind:
    """Words of one sort."""

    #: As one of them is called.
    name: str
    #: As the heading of them all.
    heading: str
    #: What they have in common.
    about: str
    entries: tuple[Entry, ...]
    #: There is little to say about each: on the page, they are a table.
    brief: bool = False
    #: A word alone would not tell what it is: on the page, its heading says so.
    named: bool = False


def entry(
    word: str, meaning: str, *, when: str = "", why: str = "", remedy: str = "", again: str = "", page: str
) -> Entry:
    return Entry(word, when, meaning, why, remedy, again, page)
