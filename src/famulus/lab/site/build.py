"""Makes the site: every page, the files that pages lead to, and what the search looks through. Knows no server."""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from string import Template

from famulus.lab.site import reference
from famulus.lab.site.frame import framed, relative
from famulus.lab.site.markdown import Part, Reading, read_page, source_page
from famulus.lab.site.outline import OUTSIDE, Outline, SitePage, place_of, problems_of, read_outline

#: Where files of the project are shown that pages lead to.
SOURCES = "source"
#: Pictures of pages, which are copied.
PICTURES = (".png", ".svg", ".webp")
#: Neither we nor anybody else looks into these.
HIDDEN = re.compile(r"^[._]|\.so$")
DASHBOARD = files("famulus.web") / "static"
OWN = files("famulus.lab.site") / "static"
PALETTE_END = "\n* {"
WORDS_MAX = 4_000


class Site:
    """A site of the project in this folder. After `build`, `problems` says what is broken, in words."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._texts: dict[str, str] = {}
        #: By the place of each page, what can be led to in it.
        self._anchors: dict[str, set[str]] = {}
        #: Links that have an anchor: the page, the place and the anchor.
        self._aims: list[tuple[str, str, str]] = []
        #: Files and folders that pages lead to, and pictures.
        self._sources: set[Path] = set()
        self._pictures: set[Path] = set()
        self.problems: list[str] = []

    def build(self, output: Path) -> int:
        """How many pages there are."""
        written = reference.pages()
        outline = read_outline(self._root)
        for seen in (self._anchors, self._aims, self._sources, self._pictures):
            seen.clear()
        self.problems = list(problems_of(outline, self._root, {*written}))
        pages = [page for page in outline.pages if page.path in written or (self._root / page.path).is_file()]
        readings = {
            page: self._read(page, written.get(page.path) or (self._root / page.path).read_text("utf-8"))
            for page in pages
        }
        self.problems += [
            f"{path}: {place} has no #{anchor}"
            for path, place, anchor in self._aims
            if place in self._anchors and anchor not in self._anchors[place]
        ]
        template = Template((OWN / "page.html").read_text("utf-8"))
        for page, reading in readings.items():
            _write(output / page.place, framed(template, outline, page.place, reading, page))
        for path in sorted(self._sources):
            place = self._place_of_source(path)
            _write(output / place, framed(template, outline, place, self._source(path), None))
        self._copy(output)
        _write(output / "assets/words.js", _words_to_search(outline, readings))
        return len(readings)

    def changed_ns(self) -> int:
        """When a page or the style was last changed. What docstrings say is read once, as modules are."""
        folders = (self._root / "docs", Path(str(OWN)))
        pages = (self._root / name for name in OUTSIDE)
        return max(
            path.stat().st_mtime_ns for path in (*pages, *(each for folder in folders for each in folder.rglob("*")))
        )

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read(self, page: SitePage, text: str) -> Reading:
        reading = read_page(text, lambda link: self._lead(page, link))
        self._anchors[page.place] = reading.anchors
        if not reading.title:
            self.problems.append(f"{page.path}: its first line is no heading")
        return reading

    def _lead(self, page: SitePage, link: str) -> str | None:
        """Where a link of a page leads to in the site; None if it stays as it is."""
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:|//", link):
            return None
        if not path:
            self._aims.append((page.path, page.place, anchor))
            return None
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.path), path))
        place = self._place(self._root / target, target)
        if place is None:
            self.problems.append(f"{page.path}: {link} leads nowhere")
            return None
        if anchor:
            self._aims.append((page.path, place, anchor))
        return relative(place, page.place) + (f"#{anchor}" if anchor else "")

    def _place(self, path: Path, target: str) -> str | None:
        if target.startswith("../") or not (path.exists() or target in reference.PAGES):
            return None
        if target.endswith(".md"):
            return place_of(target)
        if path.suffix in PICTURES:
            self._pictures.add(path)
            return _inside_docs(target)
        self._add_source(path)
        return self._place_of_source(path)

    # -- files of the project -----------------------------------------------------------------------------------------

    def _add_source(self, path: Path) -> None:
        if path not in self._sources:
            self._sources.add(path)
            for each in _shown(path) if path.is_dir() else ():
                self._add_source(each)

    def _place_of_source(self, path: Path) -> str:
        name = path.relative_to(self._root).as_posix()
        return f"{SOURCES}/{name}/index.html" if path.is_dir() else f"{SOURCES}/{name}.html"

    def _source(self, path: Path) -> Reading:
        name = path.relative_to(self._root).as_posix()
        if not path.is_dir():
            return source_page(name, path.read_text("utf-8"))
        place = self._place_of_source(path)
        listed = "\n".join(f"- [{each.name}]({relative(self._place_of_source(each), place)})" for each in _shown(path))
        return read_page(f"# {name}\n\n{listed}\n", lambda _: None)

    # -- what pages need ----------------------------------------------------------------------------------------------

    def _copy(self, output: Path) -> None:
        for path in self._pictures:
            copied = output / _inside_docs(path.relative_to(self._root).as_posix())
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
        _write(output / "assets/mark.svg", (DASHBOARD / "mark.svg").read_text("utf-8"))
        _write(output / "assets/site.css", palette() + (OWN / "site.css").read_text("utf-8"))
        for name in ("scheme.js", "site.js"):
            _write(output / "assets" / name, (OWN / name).read_text("utf-8"))


def palette() -> str:
    """The colours of the dashboard, which a reader may choose here."""
    light, dark = (DASHBOARD / "style.css").read_text("utf-8").partition(PALETTE_END)[0].split("@media", 1)
    colours = re.search(r":root \{(.*?)\n  \}", dark, re.DOTALL)
    assert colours, "style.css of the dashboard begins with two palettes"
    chosen = f':root[data-scheme="dark"] {{{colours[1]}\n}}\n'
    preferred = f":root:not([data-scheme]) {{{colours[1]}\n}}"
    return f"{light}{chosen}@media (prefers-color-scheme: dark) {{\n{preferred}\n}}\n"


def _words_to_search(outline: Outline, readings: dict[SitePage, Reading]) -> str:
    """A script, since a page that was opened from a disk may load scripts and nothing else."""
    parts = [
        [page.place + (f"#{part.heading.anchor}" if part.heading.level > 1 else ""), page.name, *_told(part)]
        for page, reading in readings.items()
        for part in reading.parts
    ]
    return f"window.famulusWords = {json.dumps(parts, ensure_ascii=False, separators=(',', ':'))};\n"


def _told(part: Part) -> tuple[str, str]:
    return part.heading.text, re.sub(r"\s+", " ", " ".join(part.words))[:WORDS_MAX]


def _shown(folder: Path) -> Iterable[Path]:
    return sorted(each for each in folder.iterdir() if not HIDDEN.search(each.name) and each.suffix != ".svg")


def _inside_docs(path: str) -> str:
    return path.removeprefix("docs/")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
