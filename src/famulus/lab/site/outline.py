"""Which pages the site has, in which order, and where each of them comes to lie. Renders nothing."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from famulus.errors import SettingsError

#: Sections by their headings; in each the pages, as paths from the root of the project, with their names. A line
#: such as "docs/decisions/*" stands for all others of a folder, whatever its name says.
FILE = "docs/site.toml"
#: Pages beside those in docs; they have to be in the outline, too.
OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
#: Where the pages of the reference would be if they were files.
REFERENCE = "api"


@dataclass(frozen=True, slots=True)
class SitePage:
    #: From the root of the project.
    path: str
    #: As the navigation calls it.
    name: str
    section: str

    @property
    def place(self) -> str:
        return place_of(self.path)


@dataclass(frozen=True, slots=True)
class Outline:
    pages: tuple[SitePage, ...]

    def sections(self) -> Iterator[tuple[str, list[SitePage]]]:
        for heading in dict.fromkeys(page.section for page in self.pages):
            yield heading, [page for page in self.pages if page.section == heading]

    def neighbours(self, page: SitePage) -> tuple[SitePage | None, SitePage | None]:
        """What one reads before it, and next."""
        here = self.pages.index(page)
        before = self.pages[here - 1] if here else None
        return before, self.pages[here + 1] if here + 1 < len(self.pages) else None


def read_outline(root: Path) -> Outline:
    with (root / FILE).open("rb") as file:
        written = tomllib.load(file)
    lines = [(section, path, name) for section, pages in written.items() for path, name in _lines(section, pages)]
    named = {path for _, path, _ in lines}
    pages: list[SitePage] = []
    for section, path, name in lines:
        if path.endswith("/*"):
            pages += (SitePage(each, title, section) for each, title in _of_folder(root, path) if each not in named)
        else:
            pages.append(SitePage(path, name, section))
    return Outline(tuple(pages))


def _of_folder(root: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """By their titles."""
    for page in sorted(root.glob(f"{pattern}.md")):
        yield page.relative_to(root).as_posix(), page.read_text("utf-8").partition("\n")[0].lstrip("# ")


def _lines(section: str, pages: object) -> list[tuple[str, str]]:
    if not isinstance(pages, dict) or not all(isinstance(name, str) for name in pages.values()):
        raise SettingsError(f'{FILE}: [{section}] should have lines such as "docs/tutorial.md" = "Tutorial"')
    return list(pages.items())


def problems_of(outline: Outline, root: Path, reference: set[str]) -> Iterator[str]:
    """Pages that there are not, and those that nobody would find."""
    written = {page.relative_to(root).as_posix() for page in (root / "docs").rglob("*.md")} | {*OUTSIDE} | reference
    named = [page.path for page in outline.pages]
    yield from (f"{FILE}: there is no {path}" for path in named if path not in written)
    yield from (f"{FILE}: {path} is there twice" for path in sorted({*named}) if named.count(path) > 1)
    yield from (f"{FILE}: {path} is missing" for path in sorted(written - {*named}))


def place_of(path: str) -> str:
    """Of a page in the site: docs is its root, and a README the first page of its folder."""
    inside = path.removeprefix("docs/") if path.startswith("docs/") else path
    folder, _, name = inside.rpartition("/")
    stem = "index" if name == "README.md" else name.removesuffix(".md").lower()
    return f"{folder}/{stem}.html" if folder else f"{stem}.html"
