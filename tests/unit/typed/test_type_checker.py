"""What a type checker knows of services with types: the result of a call, and which calls are wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PROGRAM = """
from collections.abc import AsyncIterator, Generator, Iterator

import msgspec
from famulus import AsyncClient, Client, Service, Task, Worker

class Size(msgspec.Struct):
    width: int

make = Service("thumb.make", takes=Size, gives=str)
now = Service("now", gives=float)
forget = Service("forget", takes=int)
total = Service("total", takes=list[int], gives=int, codec="msgpack")
worker = Worker()

@worker.serves(make)
def plain(size: Size) -> str:
    return str(size.width)

@worker.serves(total)
async def later(numbers: list[int], task: Task) -> int:
    return sum(numbers)

@worker.serves(now)
def at_once() -> float:
    return 1.0

many = Worker()

@many.serves(make, batch=64, wait_ms=5)
def together(sizes: list[Size]) -> list[str | Exception]:
    return [str(size.width) for size in sizes]

@many.serves(total, batch=64)
async def awaited_together(numbers: list[list[int]], tasks: list[Task]) -> list[int]:
    return [sum(each) for each in numbers]

@many.service("lengths", batch=64)
def lengths(bodies: list[bytes]) -> list[str]:
    return [str(len(body)) for body in bodies]

giving_parts = Worker()

@giving_parts.serves(make)
def parts(size: Size) -> Iterator[str]:
    yield str(size.width)

@giving_parts.serves(total)
async def parts_of_coroutine(numbers: list[int], task: Task) -> AsyncIterator[int]:
    yield sum(numbers)

@giving_parts.serves(now)
def parts_of_nothing() -> Generator[float, None, None]:
    yield 1.0

async def ask(client: AsyncClient) -> None:
    reveal_type(await client.call(make, Size(width=1), timeout=5))
    reveal_type(await client.call(now))
    reveal_type(await client.submit(make, Size(width=1), timeout=5))
    reveal_type([text async for text in client.map(make, [Size(width=1)], window=5)])
    reveal_type([text async for text in client.stream(make, Size(width=1), credit=5)])

def use(client: Client) -> None:
    reveal_type(client.call(make, Size(width=1), headers={"a": "b"}))
    reveal_type(client.call(now, priority=9))
    reveal_type(client.call(forget, 5))
    reveal_type(client.call(total, [1, 2]))
    reveal_type(client.call("add", a=1, timeout=5))
    reveal_type(client.call("add", {"a": 1}))
    reveal_type(client.submit(make, Size(width=1), key="a").result())
    reveal_type(client.submit(now).result())
    reveal_type(client.submit("echo", b"x", timeout=1).result())
    reveal_type(list(client.map(total, [[1], [2, 3]], ordered=False)))
    reveal_type(list(client.map(total, [[1]], errors="return")))
    reveal_type(list(client.map("echo", [b"x"])))
    reveal_type(list(client.stream(make, Size(width=1), credit=5)))
    reveal_type(client.stream(now))
    reveal_type([part for part in client.stream("echo", b"x")])
"""

WRONG = """
@worker.serves(make)
def wrong_argument(size: int) -> str:
    return ""

@worker.serves(make)
def wrong_result(size: Size) -> int:
    return 1

@worker.serves(make, batch=64)
def no_list(size: Size) -> str:
    return ""

def misuse(client: Client) -> None:
    client.call(make, 5)
    client.call(make)
    client.call(make, Size(width=1), timeout="5")
    length: int = client.call(make, Size(width=1))
    client.submit(make, 5)
    client.submit(make)
    list(client.map(make, [5]))
    client.stream(make, 5)
    client.stream(make, Size(width=1), credit="5")

@worker.serves(make)
def wrong_part(size: Size) -> Iterator[int]:
    yield 1
"""


def check(program: str, tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not found.stderr
    return found.stdout


def test_a_type_checker_knows_what_a_call_gives(tmp_path: Path) -> None:
    told = check(PROGRAM, tmp_path)
    assert " error: " not in told, told
    assert re.findall('Revealed type is "(.+)"', told) == [
        *("str", "float", "str", "list[str]", "list[str]"),
        *("str", "float", "None", "int", "Any", "Any"),
        *(
            "str",
            "float",
            "bytes",
            "list[int]",
            "list[int | famulus.errors.OutcomeError | famulus.errors.BadAnswer]",
            "list[bytes]",
        ),
        *("list[str]", "famulus.client.stream.Stream[float]", "list[bytes]"),
    ]


def test_a_type_checker_finds_each_wrong_use(tmp_path: Path) -> None:
    told = check(PROGRAM + WRONG, tmp_path)
    first = PROGRAM.count("\n") + 1
    wrong = {int(line) - first for line in re.findall(r"program\.py:(\d+): error", told)}
    assert wrong == {1, 5, 9, 14, 15, 16, 17, 18, 19, 20, 21, 22, 24}, told
