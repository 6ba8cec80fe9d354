"""`famulus docs`: the documentation as a site, in a folder or at an address of this machine."""

from __future__ import annotations

import shutil
import signal
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import typer

from famulus.cli.packages import missing_of
from famulus.errors import FamulusError, SettingsError
from famulus.exit_codes import ExitCode
from famulus.lab.commands.test import find_root

if TYPE_CHECKING:
    from famulus.lab.site.build import Site

app = typer.Typer()
#: What tells a former site, which may be written over, from anybody's folder.
MARK = "assets/words.js"


@app.command()
def build(
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where: a new or empty folder, or a former site.")
    ] = Path("site"),
) -> None:
    """Make a site of the documentation, with a search and the reference of the API.

    Its pages are files that need no network and no server: open index.html. A broken link, or a page that is missing
    from docs/site.toml, is an error.
    """
    if output.exists() and not (output.is_dir() and (not any(output.iterdir()) or (output / MARK).is_file())):
        raise SettingsError(f"output: {output} has something else in it; name a new folder")
    site = _new_site()
    try:
        if output.exists():
            shutil.rmtree(output)
        output.mkdir(parents=True)
    except OSError as error:
        raise SettingsError(f"output: {output} cannot be made ({error.strerror})") from None
    number = site.build(output)
    if site.problems:
        raise FamulusError(f"the documentation is not whole: {'; '.join(site.problems)}")
    typer.echo(f"{number} pages: open {output / 'index.html'}")


@app.command()
def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="On loopback; 0 for a free one.")] = 7180,
) -> None:
    """Show the documentation at an address of this machine, and make it anew when a page has changed.

    Until Ctrl-C. What is broken is said here.
    """
    with tempfile.TemporaryDirectory(prefix="famulus-docs-") as folder:
        pages = _Pages(_new_site(), Path(folder))
        pages.refresh()
        try:
            server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Showing, pages, directory=folder))
        except OSError as error:
            raise FamulusError(f"port {port} of 127.0.0.1 cannot be had: {error.strerror}") from None
        with server:
            signal.signal(signal.SIGTERM, _end)
            typer.echo(f"the documentation is ready: http://127.0.0.1:{server.server_port}/")
            server.serve_forever()


def _end(*_: object) -> None:
    raise SystemExit(ExitCode.DONE)


class _Pages:
    """A site that is made anew when somebody asks and something has changed."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._site = site
        self._folder = folder
        self._lock = Lock()
        self._seen = 0

    def refresh(self) -> None:
        with self._lock:
            seen = self._site.changed_ns()
            if seen == self._seen:
                return
            self._seen = seen
            try:
                self._site.build(self._folder)
            except (FamulusError, ValueError) as error:  # somebody is writing it at this moment
                typer.echo(f"not made: {error}", err=True)
            for problem in self._site.problems:
                typer.echo(problem, err=True)


class _Showing(SimpleHTTPRequestHandler):
    def __init__(self, pages: _Pages, *more: Any, **settings: Any) -> None:
        self._pages = pages
        super().__init__(*more, **settings)

    def do_GET(self) -> None:
        if self.path.partition("?")[0].endswith((".html", "/")):
            self._pages.refresh()
        super().do_GET()

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody wants to read what was asked for."""


def _new_site() -> Site:
    root = find_root()
    if said := missing_of("dev"):
        raise FamulusError(said)
    from famulus.lab.site.build import Site

    return Site(root)
