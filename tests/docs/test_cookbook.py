"""The cookbook: its programs are those of `examples/cookbook`, print what the page says, and have the right types."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.docs.test_commands import Block, blocks_of

import famulus
from famulus import Worker
from famulus.testing import StandIn

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/cookbook"
PROGRAMS = sorted(path.name for path in FOLDER.glob("*.py"))
BLOCKS = blocks_of(ROOT / "docs/cookbook.md")


def place_of(program: str) -> int:
    """Where it stands among the blocks of the page."""
    (place,) = [at for at, block in enumerate(BLOCKS) if block.text.startswith(f"# examples/cookbook/{program}\n")]
    return place


def named_in(block: Block) -> str | None:
    found = re.match(r"# examples/cookbook/(\w+\.py)\n", block.text)
    return found[1] if found else None


def test_the_page_has_each_program_and_no_other() -> None:
    assert sorted(filter(None, map(named_in, BLOCKS))) == PROGRAMS


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_on_the_page_is_the_file(program: str) -> None:
    assert BLOCKS[place_of(program)].text == (FOLDER / program).read_text("utf-8")


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_prints_what_the_page_says(program: str) -> None:
    at = place_of(program)
    assert BLOCKS[at + 1].text == f".venv/bin/python examples/cookbook/{program}\n"
    command = [sys.executable, str(FOLDER / program)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == BLOCKS[at + 2].text


def test_their_types_are_right() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--cache-dir", "/dev/null", "."]
    # Nothing of ours but what is installed, as for any user.
    told = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout


# -- FastAPI, which is not here: as much of it as the example uses ----------------------------------------------------


class HTTPException(Exception):
    def __init__(self, status_code: int, detail: str, headers: dict[str, str] | None = None) -> None:
        self.status_code, self.detail = status_code, detail


class FastAPI:
    def __init__(self, *, lifespan: Any) -> None:
        self.lifespan, self.state, self.functions = lifespan, SimpleNamespace(), dict[str, Any]()

    def get(self, path: str) -> Any:
        return lambda function: self.functions.setdefault(path, function)


def application() -> FastAPI:
    (program,) = [block for block in BLOCKS if "import FastAPI" in block.text]
    module = ModuleType("web")
    exec(compile(program.text, "web.py", "exec", dont_inherit=True), module.__dict__)
    app: FastAPI = module.app
    return app


def test_the_application_answers_and_says_who_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("fastapi")
    fake.__dict__.update(FastAPI=FastAPI, HTTPException=HTTPException, Request=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "fastapi", fake)
    worker = Worker()

    @worker.service("shop.price")
    def price(article: str) -> int:
        return {"tea": 250}[article]

    async def ask(article: str, *workers: Worker) -> object:
        with StandIn(*workers) as broker:
            monkeypatch.setattr(famulus, "AsyncClient", broker.async_client, raising=False)
            app = application()
            async with app.lifespan(app):
                return await app.functions["/price/{article}"](article, SimpleNamespace(app=app))

    assert asyncio.run(ask("tea", worker)) == {"article": "tea", "price": 250}
    for article, workers, status in (("cake", (worker,), 500), (7, (worker,), 400), ("tea", (), 503)):
        with pytest.raises(HTTPException) as raised:
            asyncio.run(ask(article, *workers))  # type: ignore[arg-type]
        assert raised.value.status_code == status
