"""The documentation as a site: made once, whole, with every public name, and readable without a network."""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path

import pytest
from tests.browser.conftest import Browser
from tests.browser.conftest import browser as browser
from tests.pages import Page

import famulus
import famulus.testing
from famulus.errors import FamulusError, SettingsError
from famulus.lab.commands import docs
from famulus.lab.site import reference
from famulus.lab.site.build import Site, palette
from famulus.lab.site.outline import place_of, problems_of, read_outline

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("site") / "site"
    made = Site(ROOT)
    made.build(output)
    assert made.problems == []
    return output


@cache
def page_of(path: Path) -> Page:
    return Page(path.read_text("utf-8"))


# -- whole --------------------------------------------------------------------------------------------------------


def test_every_page_of_the_docs_is_there(site: Path) -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        title = page.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        place = site / place_of(page.relative_to(ROOT).as_posix())
        assert f"<title>{title}" in place.read_text("utf-8")


def test_everything_that_is_linked_or_loaded_is_there(site: Path) -> None:
    for path in site.rglob("*.html"):
        for loaded in page_of(path).loads:
            target = unescape(loaded.partition(" ")[2]).partition("#")[0]
            if not re.match(r"https?://", target):
                assert (path.parent / target).is_file(), f"{path}: {loaded}"


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    """Links may lead out; what a browser fetches by itself may not."""
    for path in site.rglob("*.html"):
        page = page_of(path)
        loaded = [each for each in page.loads if not each.startswith("a ")]
        assert [each for each in loaded if re.search(r"//|data:", each)] == [], path
        assert page.handlers == [], path
        assert {*page.tags} & {"iframe", "object", "embed", "base", "form", "style"} == set(), path
    for path in (site / "assets").glob("*.css"):
        assert re.findall(r"@import|@font-face|url\(", path.read_text("utf-8")) == []
    for name in ("site.js", "scheme.js"):
        assert "//" not in re.sub(r"^\s*//.*$", "", (site / "assets" / name).read_text("utf-8"), flags=re.MULTILINE)


def test_files_of_the_project_are_shown_where_pages_lead_to_them(site: Path) -> None:
    shown = page_of(site / "source/examples/plain_client.py.html").text
    assert re.sub(r"\s+", " ", (ROOT / "examples/plain_client.py").read_text("utf-8").partition("\n")[0]) in shown
    assert "cookbook" in page_of(site / "source/examples/index.html").text


# -- what is broken is said ---------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with three pages."""
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text(f"# {name}\n\nText.\n")
    pages = "".join(f'"{path}" = "{path}"\n' for path in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"))
    pages += "".join(f'"{path}" = "{title}"\n' for path, (title, *_) in reference.PAGES.items())
    (tmp_path / "docs/site.toml").write_text(f"[All]\n{pages}")
    for path in ("docs/errors.md",):
        (tmp_path / path).write_text("# Errors\n")
        with (tmp_path / "docs/site.toml").open("a") as file:
            file.write(f'"{path}" = "Errors"\n')
    return tmp_path


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[lost](docs/nowhere.md)", "README.md: docs/nowhere.md leads nowhere"),
        ("[lost](CHANGELOG.md#not-there)", "README.md: changelog.html has no #not-there"),
        ("[lost](#not-there)", "README.md: index.html has no #not-there"),
        ("![lost](docs/none.webp)", "README.md: docs/none.webp leads nowhere"),
        ("[out](../secret.md)", "README.md: ../secret.md leads nowhere"),
    ],
)
def test_a_link_that_leads_nowhere_is_said(project: Path, text: str, problem: str) -> None:
    (project / "README.md").write_text(f"# Title\n\n{text}\n")
    made = Site(project)
    made.build(project / "out")
    assert made.problems == [problem]


def test_a_page_that_nobody_would_find_is_said_and_one_that_is_not_there(project: Path) -> None:
    (project / "docs/new.md").write_text("# New\n")
    with (project / "docs/site.toml").open("a") as file:
        file.write('"docs/old.md" = "Old"\n')
    problems = list(problems_of(read_outline(project), project, {*reference.PAGES}))
    assert problems == ["docs/site.toml: there is no docs/old.md", "docs/site.toml: docs/new.md is missing"]


def test_what_a_page_says_is_shown_and_never_run(project: Path) -> None:
    (project / "README.md").write_text("# <img src=x>\n\n<script>alert(1)</script>\n\n[x](javascript:alert(1))\n")
    Site(project).build(project / "out")
    page = page_of(project / "out/index.html")
    assert page.tags.count("script") == 2, "ours"
    assert [each for each in page.loads if "javascript" in each or each == "img x"] == []


# -- the reference ------------------------------------------------------------------------------------------------

ENTRIES = reference.entries()


def test_every_public_name_is_there() -> None:
    public = {name for name in dir(famulus) if not name.startswith("__")} | {*famulus.testing.__all__}
    assert {entry.name for entry in ENTRIES} == public
    written = "".join(reference.pages().values())
    for name in public:
        assert f"\n## {name}\n" in written


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_all_of_it_is_explained(entry: reference.PublicName) -> None:
    assert entry.about
    assert [member.name for member in entry.members if not member.about] == []


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_nothing_public_of_a_class_is_left_out(entry: reference.PublicName) -> None:
    kind = getattr(famulus if entry.home == "famulus" else famulus.testing, entry.name)
    if inspect.isclass(kind):
        public = {name for name, value in vars(kind).items() if not name.startswith("_") and callable(value)}
        left_out = {name.partition(".")[2] for name in reference.INNER if name.startswith(f"{entry.name}.")}
        assert public - left_out <= {member.name for member in entry.members}


def test_signatures_say_what_there_is() -> None:
    (client,) = [entry for entry in ENTRIES if entry.name == "Client"]
    members = {member.name: member for member in client.members}
    assert "    timeout: float = 30.0,\n" in client.signature
    assert "self" not in client.signature
    assert members["close"].signature == "close() -> None"
    assert members["call"].signature.count("call(") == 3
    assert "`timeout: float | None = None`" in members["call"].about


def test_code_and_columns_of_a_docstring_are_shown_as_such() -> None:
    written = reference.prose(
        "Do this.\n\nfor x in y:\n    z(x)\n\n    more()\n\nslots     how many | at once\nwait_ms   how long"
    )
    assert written == (
        "Do this.\n\n```python\nfor x in y:\n    z(x)\n\nmore()\n```\n\n"
        "| | |\n|---|---|\n| `slots` | how many \\| at once |\n| `wait_ms` | how long |"
    )


def test_the_reference_leaves_out_only_what_there_is() -> None:
    kinds = {name: getattr(module, name) for module in (famulus, famulus.testing) for name in dir(module)}
    for name in reference.INNER:
        kind, _, member = name.partition(".")
        assert f"self.{member} = " in inspect.getsource(kinds[kind]) or hasattr(kinds[kind], member)


# -- the commands -------------------------------------------------------------------------------------------------


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SettingsError, match="something else"):
        docs.build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_cannot_be_made_is_named(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr(docs, "find_root", lambda: project)
    with pytest.raises(SettingsError, match=r"output: .*file/site cannot be made \(Not a directory\)"):
        docs.build(tmp_path / "file" / "site")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_former_site_is_replaced(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(docs, "find_root", lambda: project)
    output = tmp_path / "site"
    docs.build(output)
    (output / "former.html").touch()
    docs.build(output)
    assert (output / "index.html").is_file()
    assert not (output / "former.html").exists()


def test_a_broken_page_is_an_error(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(docs, "find_root", lambda: project)
    (project / "README.md").write_text("# Title\n\n[lost](nowhere.md)\n")
    with pytest.raises(FamulusError, match=r"README\.md: nowhere\.md leads nowhere"):
        docs.build(tmp_path / "site")


def test_a_page_that_changes_is_made_anew_when_somebody_asks(project: Path, tmp_path: Path) -> None:
    pages = docs._Pages(Site(project), tmp_path / "served")
    pages.refresh()
    (project / "README.md").write_text("# Another title\n")
    askers = [threading.Thread(target=pages.refresh) for _ in range(3)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert '<h1 id="another-title">' in (tmp_path / "served/index.html").read_text("utf-8")


# -- in a browser -------------------------------------------------------------------------------------------------


@pytest.fixture
def reader(browser: Browser, site: Path) -> Iterator[Browser]:
    """Somebody who has opened the first page from the disk."""
    browser.look()
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(f"file://{site}/index.html")
    browser.wait_for("document.readyState === 'complete' && !!document.querySelector('.headings .read')")
    yield browser
    assert browser.complaints == []
    assert [each for each in browser.requests if not each.startswith("file:") and each != "about:blank"] == []


def test_a_search_finds_what_is_asked_for(reader: Browser) -> None:
    reader.run("document.getElementById('search').focus()")
    reader.type("at-least-once")
    reader.wait_for("document.querySelectorAll('#found [role=option]').length > 3")
    reader.run("document.getElementById('search').select()")
    reader.type("was_turned_away")
    first = "document.querySelector('#found [aria-selected=true]')"
    reader.wait_for(f"{first}?.innerText.includes('Client.was_turned_away')")
    reader.press("Enter")
    reader.wait_for("location.pathname.endsWith('/api/clients.html') && location.hash === '#clientwas_turned_away'")


def test_a_search_shows_words_and_never_runs_them(reader: Browser) -> None:
    reader.run("document.getElementById('search').focus()")
    reader.type("<img src=x onerror=alert(1)>")
    reader.wait_for("!!document.querySelector('#found .none')")
    assert reader.run("document.querySelectorAll('#found img').length") == 0


def test_light_and_dark_are_as_the_reader_wishes(reader: Browser) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    reader.look(1280, 900, ("prefers-color-scheme", "dark"))
    # The button tells what a click gives.
    reader.wait_for("document.getElementById('scheme').innerText === 'Light'")
    dark = reader.run(paper)
    reader.run("document.getElementById('scheme').click()")
    light = reader.run(paper)
    assert light != dark
    reader.look(1280, 900, ("prefers-color-scheme", "light"))
    assert reader.run(paper) == light
    colours = re.findall(r"--paper: (#\w+)", palette())
    assert colours == ["#f5f3ee", "#111417", "#111417"]


@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_scrolls_sideways(reader: Browser, site: Path, width: int, tmp_path: Path) -> None:
    """The pictures are for people: --basetemp says where they are."""
    for page in ("index", "tables", "protocol", "api/workers", "decisions/dependencies", "source/deploy/index"):
        reader.open(f"file://{site}/{page}.html")
        reader.look(width, 900)
        reader.wait_for(f"innerWidth === {width} && location.pathname.endsWith({json.dumps(f'/{page}.html')})")
        reader.wait_for("document.readyState === 'complete'")
        assert not reader.run("document.documentElement.scrollWidth > document.documentElement.clientWidth"), page
        reader.screenshot(tmp_path / f"{page.replace('/', '-')}.png")
