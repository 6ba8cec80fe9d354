"""The rules stand where they say, and the page of the kit has what a program may offer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from famulus.lab.conform.rule import DOCUMENT, Rule
from famulus.lab.conform.run import ROLES

ROOT = Path(__file__).parents[4]
RULES = [(role, rule) for role, (rules, _) in ROLES.items() for rule in rules]


def anchors() -> set[str]:
    headings = re.findall(r"^#+ (.+)$", (ROOT / DOCUMENT).read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("role", "rule"), RULES, ids=lambda each: each if isinstance(each, str) else each.name)
def test_a_rule_is_a_sentence_and_has_a_place_in_the_document(role: str, rule: Rule[Any]) -> None:
    assert rule.section in anchors()
    assert re.fullmatch(r"[A-Z`].{20,}\.", rule.text), rule.text


@pytest.mark.parametrize("role", ROLES)
def test_no_two_rules_of_a_role_have_the_same_name(role: str) -> None:
    names = [rule.name for rule in ROLES[role][0]]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("role", ROLES)
def test_the_page_has_what_a_program_may_offer(role: str) -> None:
    page = (ROOT / "docs" / "conformance.md").read_text("utf-8")
    section = page.partition(f"## What a {role} may offer\n")[2].partition("\n## ")[0]
    offered = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert offered == {rule.needs for rule in ROLES[role][0]} - {""}
