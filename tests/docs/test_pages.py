"""The pages are whole: links lead somewhere, and everything that has a name in the code has its place in the docs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import typer
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from famulus.broker.settings import Settings
from famulus.cli.main import new_app
from famulus.core.delivery import DeclaredService
from famulus.core.dispatch.bounds import Bounds
from famulus.core.objective import Objective
from famulus.lab.sim.scenarios import CONFIG, ONE_BROKER, RIGHTS, SEVERAL_BROKERS
from famulus.lab.sim.tasks.mutants import OF_KEYS
from famulus.wire import headers, inner, limits, reasons

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def text_of(page: Path) -> str:
    return page.read_text("utf-8")


@cache
def prose_of(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def section(page: str, heading: str) -> str:
    """From a heading to the next one of its level or above."""
    text = prose_of(DOCS / page)
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert found, f"docs/{page} has no heading {heading!r}"
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


# -- links --------------------------------------------------------------------------------------------------------


def anchors_of(page: Path) -> set[str]:
    """As GitHub makes them from headings."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)}: {link} is not there"
        assert target.is_relative_to(ROOT), f"{name_of(page)}: {link} leads out of the project"
        if anchor:
            assert anchor in anchors_of(target), f"{name_of(page)}: {link} has no such heading"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        links = re.findall(r"\]\((?!https?://)([^)\s#]+\.md)", prose_of(page))
        waiting.extend((page.parent / link).resolve() for link in links)
    assert reached >= set(PAGES)


# -- nothing is missing -------------------------------------------------------------------------------------------

CODES = sorted(value for name, value in vars(reasons).items() if name.isupper())


@pytest.mark.parametrize("code", CODES)
def test_every_reason_has_a_meaning_and_a_remedy(code: str) -> None:
    assert re.search(rf"^\| `{code}` \|", section("protocol.md", "Reasons"), re.MULTILINE)
    assert f"`{code}`" in section("operations.md", "Troubleshooting")


TABLES: list[tuple[type[Struct], str]] = [
    (Settings, "The broker"),
    (DeclaredService, "Services"),
    (Objective, "Objectives"),
    (Bounds, "Bounds"),
]
SETTINGS = [(heading, field) for table, heading in TABLES for field in fields(table)]


@pytest.mark.parametrize(("heading", "field"), SETTINGS, ids=lambda each: getattr(each, "name", each))
def test_every_setting_is_there_with_its_default(heading: str, field: FieldInfo) -> None:
    row = re.search(rf"^\| `{field.name}` \|(.+)\|$", section("configuration.md", heading), re.MULTILINE)
    assert row, f"{field.name} is missing"
    if isinstance(field.default, int):
        # In TOML, true and false begin with small letters.
        assert re.search(rf"\| {str(field.default).lower()}\b", row[1]), f"its default is {field.default}"
    elif isinstance(field.default, str):
        assert f'`"{field.default}"`' in row[1]


def test_no_setting_is_there_that_does_not_exist() -> None:
    for table, heading in TABLES:
        rows = re.findall(r"^\| `(\w+)` \|", section("configuration.md", heading), re.MULTILINE)
        assert sorted(rows) == sorted(field.name for field in fields(table)), heading


@pytest.mark.parametrize(("request_name", "kind"), sorted(headers.MESSAGES))
def test_every_message_is_there_with_its_fields(request_name: str, kind: str) -> None:
    text = section("protocol.md", "Messages")
    parts = re.split(r"^### ", text, flags=re.MULTILINE)
    own = [part for part in parts if f"`{request_name}` `{kind}`" in part.partition("\n")[0]]
    assert own, f"{request_name} {kind} has no heading"
    for field in fields(headers.MESSAGES[request_name, kind]):
        assert any(f"`{field.name}`" in part for part in own), f"{request_name} {kind} does not say {field.name}"


@pytest.mark.parametrize("limit", sorted(name for name in vars(limits) if name.endswith("_MAX")))
def test_every_limit_is_there(limit: str) -> None:
    assert f"{getattr(limits, limit):,}" in section("protocol.md", "Limits")


VERBS = sorted(verb.decode() for verb in inner.DECISION_PARTS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_decision_is_there_with_its_parts(verb: str) -> None:
    row = re.search(rf"^\| `{verb}` \(\w+\) \| ([^|]+) \|", section("protocol.md", "Decisions"), re.MULTILINE)
    assert row
    parts = 0 if row[1].startswith("none") else len(re.sub(r", or [^,|]+", "", row[1]).split(","))
    assert parts == inner.DECISION_PARTS[verb.encode()] - 2


@pytest.mark.parametrize("name", ONE_BROKER.mutants)
def test_every_mutant_is_explained(name: str) -> None:
    assert re.search(rf"^\| `{name}` \|", section("testing.md", "The mutants"), re.MULTILINE)


@pytest.mark.parametrize("name", sorted(fault.__name__ for fault in ONE_BROKER.faults))
def test_every_fault_is_explained(name: str) -> None:
    assert f"`{name}`" in section("testing.md", "The simulation")


@pytest.mark.parametrize(
    "name", [*SEVERAL_BROKERS.mutants, *sorted(fault.__name__ for fault in SEVERAL_BROKERS.faults)]
)
def test_every_mutant_and_fault_of_several_brokers_is_explained(name: str) -> None:
    assert f"`{name}`" in section("testing.md", "The simulation of a network's tasks")


@pytest.mark.parametrize("name", OF_KEYS)
def test_every_mutant_of_keys_is_explained(name: str) -> None:
    assert f"`{name}`" in section("testing.md", "The simulation")


@pytest.mark.parametrize("name", [*RIGHTS.mutants, *sorted(fault.__name__ for fault in RIGHTS.faults)])
def test_every_mutant_and_fault_of_rights_is_explained(name: str) -> None:
    assert f"`{name}`" in section("testing.md", "The simulation of rights")


@pytest.mark.parametrize("name", CONFIG.mutants)
def test_every_mutant_of_the_config_is_explained(name: str) -> None:
    assert f"`{name}`" in section("testing.md", "The simulation of a network's config")


@cache
def options() -> list[tuple[str, str]]:
    """Every command with each of its long options."""
    found: list[tuple[str, str]] = []

    def visit(name: str, command: object) -> None:
        below = getattr(command, "commands", None)
        for each, one in (below or {}).items():
            visit(f"{name} {each}", one)
        for parameter in getattr(command, "params", []) if below is None else []:
            found.extend((name, option) for option in parameter.opts if option.startswith("--"))

    visit("./famulus", typer.main.get_command(new_app()))
    return found


@pytest.mark.parametrize("command", sorted({command for command, _ in options()} | {"./famulus test"}))
def test_every_command_is_shown(command: str) -> None:
    assert any(re.search(rf"^{re.escape(command)}\b", text_of(page), re.MULTILINE) for page in PAGES)


@pytest.mark.parametrize("command", sorted({command for command, _ in options()}))
def test_every_option_is_mentioned(command: str) -> None:
    home = [page for page in PAGES if re.search(rf"famulus {command.split()[1]}\b", text_of(page))]
    own = [option for owner, option in options() if owner == command]
    assert [option for option in own if not any(re.search(rf"{option}\b", text_of(page)) for page in home)] == []


def test_every_environment_variable_is_explained() -> None:
    sources = [ROOT / "famulus", *(ROOT / "src").rglob("*.py")]
    read = {name for path in sources for name in re.findall(r"\bFAMULUS_[A-Z_]*[A-Z]\b", path.read_text("utf-8"))}
    told = set(re.findall(r"^\| `(\w+)` \|", section("configuration.md", "Environment"), re.MULTILINE))
    assert read == told
