"""What is said about one word that Famulus uses: the same in a terminal and on the page docs/errors.md."""

from __future__ import annotations

from msgspec import Struct


class Entry(Struct, frozen=True):
    """One meaning of one word. Where a word has several, each has an entry of its own, and `when` tells them apart."""

    word: str
    meaning: str
    #: The page below docs that tells more.
    page: str
    #: Where it stands, if that matters: `with REJECTED`, `to a worker`.
    when: str = ""
    #: Why it happens; empty if the meaning says it.
    why: str = ""
    #: What to do; empty if there is nothing.
    remedy: str = ""
    #: Whether trying again is safe; empty if there is nothing to try.
    again: str = ""

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


class WordList(Struct, frozen=True):
    """Words of one sort: a file of this folder."""

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
