"""One word, one meaning: what two packages call by the same name is one thing, and the glossary says which."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

import famulus

SOURCE = Path(famulus.__file__).parent
GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
PARTS = {
    part.partition("\n")[0]: re.findall(r"^\| (?!word \||---)([^|]+?) \|", part, re.MULTILINE)
    for part in GLOSSARY.read_text("utf-8").split("\n## ")[1:]
}
WORDS = {word.lower() for words in PARTS.values() for word in words}


def words_of(name: str) -> set[str]:
    """A class name as a word of the glossary could be: `ErrorWorkers` is "error workers" or "error worker"."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.lstrip("_")).lower()
    return {plain, plain.removesuffix("s")}


def packages_by_class() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        # By their lines, since this is done whenever the tests are collected, and to parse it all takes a second.
        for name in re.findall(r"^ *class _*(\w+)", path.read_text("utf-8"), re.MULTILINE):
            found[name].add(path.relative_to(SOURCE).parts[0])
    return found


SHARED = sorted(name for name, packages in packages_by_class().items() if len(packages) > 1)


@pytest.mark.parametrize("name", SHARED)
def test_a_class_name_of_two_packages_is_a_word_of_the_glossary(name: str) -> None:
    assert words_of(name) & WORDS, f"{packages_by_class()[name]} each have a {name}: what do they have in common?"


@pytest.mark.parametrize("part", PARTS)
def test_the_words_are_in_order_and_none_is_there_twice(part: str) -> None:
    words = [word.lower() for word in PARTS[part]]
    assert words == sorted(set(words))


def test_no_word_is_explained_in_both_parts() -> None:
    assert len(WORDS) == sum(map(len, PARTS.values()))
