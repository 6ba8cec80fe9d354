"""Who may import whom. Read without running: imports inside functions and under TYPE_CHECKING count as well.

So do modules that are named in a string, by which processes are started and commands found.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import famulus
from famulus import errors
from famulus.errors import FamulusError

SOURCE = Path(famulus.__file__).parent

#: Whatever reads a clock, touches the system or rolls dice: in `core` time and chance come in, actions go out.
# fmt: off
WORLDLY = frozenset(
    {
        "asyncio", "concurrent", "ctypes", "datetime", "fcntl", "glob", "http", "io", "logging", "mmap",
        "multiprocessing", "os", "pathlib", "queue", "random", "resource", "sched", "secrets", "select",
        "selectors", "shutil", "signal", "socket", "socketserver", "ssl", "subprocess", "tempfile",
        "threading", "time", "urllib", "uuid",
    }
)
# fmt: on
#: They run or trust what they read.
NOWHERE = frozenset({"pickle", "marshal", "shelve"})
ANY = None
#: A module in a string, maybe with a function of it.
MODULE = re.compile(r"famulus(\.[a-z_]+){2,}(:\w+)?")


@dataclass(frozen=True, slots=True)
class Layer:
    """What one package, or one module beside the packages, may import. `__init__` is the package `famulus` itself."""

    ours: frozenset[str] | None
    others: frozenset[str] | None = frozenset({"msgspec"})
    not_ours: frozenset[str] = frozenset()
    not_others: frozenset[str] = frozenset({"zmq"})
    not_standard: frozenset[str] = frozenset()


def layer(ours: str, others: str = "msgspec", *, not_standard: frozenset[str] = frozenset()) -> Layer:
    named = frozenset(others.split())
    return Layer(frozenset(ours.split()), named, frozenset(), frozenset({"zmq"}) - named, not_standard)


#: A package inside a package may have a row of its own, which counts instead of the outer one.
LAYERS = {
    "exit_codes": layer("", ""),
    "errors": layer("exit_codes", ""),
    "wire": layer("errors", "msgspec nacl"),
    "core": layer("wire errors", not_standard=WORLDLY),
    "net": layer("wire core errors __init__", "msgspec nacl zmq"),
    "journal": Layer(frozenset({"wire", "errors"}), ANY),
    "broker": layer("net core wire errors journal __init__", "msgspec nacl cryptography"),
    "admin": layer("client net core wire errors __init__"),
    "tracing": layer("", "opentelemetry"),
    # What both sides of a service know of its types.
    "typed": layer("wire errors"),
    "client": layer("net core wire typed tracing errors __init__", "msgspec rich"),
    "worker": layer("net core wire typed tracing errors __init__"),
    "cli": Layer(ANY, ANY, not_ours=frozenset({"lab"})),
    # It names the commands of the laboratory, which are there if that is installed.
    "cli.main": Layer(ANY, ANY),
    # The herald, a process of a broker like its others, with a web server in it.
    "web": Layer(
        frozenset({"admin", "broker", "journal", "tables", "net", "core", "wire", "errors", "web.status", "__init__"}),
        ANY,
    ),
    # What a broker does, as people see it: decided without a clock or a socket.
    "web.status": layer("core wire errors", not_standard=WORLDLY),
    # What the pipeline made, for those who have no Spark.
    "tables": layer("errors", "msgspec pyarrow"),
    # Its floors, from the lowest up; the report reads the tables' files, and needs no Spark.
    # What Spark's tasks run: neither Spark nor the tables.
    "pipeline.columnar": layer("pipeline.histogram journal", "numpy pyarrow"),
    "pipeline.tables": Layer(frozenset({"pipeline.columnar", "pipeline.histogram", "journal", "errors"}), ANY),
    "pipeline.io": Layer(frozenset({"pipeline.tables", "pipeline.columnar", "journal", "errors"}), ANY),
    "pipeline.run": Layer(
        frozenset({"pipeline.io", "pipeline.tables", "pipeline.columnar", "journal", "errors", "__init__"}), ANY
    ),
    "pipeline.report": Layer(
        frozenset({"pipeline.io", "pipeline.histogram", "pipeline.whatif", "tables", "journal", "errors", "__init__"}),
        ANY,
    ),
    # Questions about the tables, answered from their files as the report reads them.
    "pipeline.compare": Layer(frozenset({"pipeline.report", "pipeline.histogram", "errors"}), ANY),
    # Formulas over figures, whoever has read them.
    "pipeline.whatif": layer("errors", ""),
    "pipeline.histogram": layer("", "numpy pyarrow"),
    # A user of workers, whose functions use Spark.
    "pipeline.serve": Layer(frozenset({"pipeline", "spark", "worker", "errors", "__init__"}), ANY),
    "pipeline": Layer(frozenset({"errors"}), ANY),
    # Rows as tasks, and tasks as rows. Executors load it, so it needs nothing of the pipeline.
    "spark": Layer(frozenset({"client", "worker", "wire", "errors", "__init__"}), ANY),
    # How it is proven, measured and shown. Nobody imports it.
    "lab.processes": layer("", ""),
    "lab.relay": layer("", ""),
    "lab.sim": layer("core wire errors", not_standard=WORLDLY - {"random"}),
    "lab.fuzz": layer("net wire", not_standard=WORLDLY - {"random", "socket", "os"}),
    "lab.synth": Layer(frozenset({"journal", "pipeline.io", "pipeline.run", "pipeline.tables", "errors"}), ANY),
    "lab.judge": Layer(
        frozenset({"lab.chaos", "lab.synth", "journal", "pipeline.io", "pipeline.run", "tables", "errors"}), ANY
    ),
    # Real processes under faults; an admin and a user like any other.
    "lab.chaos": Layer(
        frozenset({"admin", "cli", "client", "lab.processes", "worker", "core", "errors", "__init__"}), ANY
    ),
    # A broker of its own, in plain pyzmq, for clients and workers of others; and ours as two of them.
    "lab.conform": Layer(
        frozenset({"client", "worker", "wire", "errors", "__init__"}), frozenset({"zmq"}), not_others=frozenset()
    ),
    # It compares with plain pyzmq.
    "lab.bench": Layer(ANY, ANY, not_ours=frozenset({"lab.sim"}), not_others=frozenset()),
    # It reads what it describes as text.
    "lab.site": Layer(frozenset({"errors", "__init__"}), ANY),
    # A user like any other, with processes that the bench and a chaos run can start.
    "lab.loop": Layer(
        frozenset({"client", "journal", "lab.chaos", "lab.processes", "worker", "errors", "__init__"}), ANY
    ),
    "lab.demo": Layer(
        frozenset(
            {
                "admin",
                "lab.bench",
                "lab.chaos",
                "lab.processes",
                "lab.relay",
                "client",
                "journal",
                "worker",
                "wire",
                "errors",
                "__init__",
            }
        ),
        ANY,
    ),
    "lab": Layer(ANY, ANY),
    # For the tests of others: a broker that is there for a test, and one without processes.
    "testing": Layer(frozenset({"client", "worker", "core", "wire", "errors"}), frozenset({"pytest"})),
    # Names that users import; each is fetched from its home when it is first asked for.
    "__init__": layer("errors client typed worker _plain", ""),
    # Chooses between compiled modules and their sources, before any other is imported.
    "_plain": layer("core net errors", ""),
    "__main__": layer("cli", ""),
}


@dataclass(frozen=True, slots=True)
class Import:
    path: Path
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} imports {self.module}"


@cache
def imports_of(path: Path, package: str) -> list[Import]:
    """Every import of a file, by the full name of the module or of the name in it."""
    return list(_imports_of(path, package))


def _imports_of(path: Path, package: str) -> Iterator[Import]:
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            yield from (Import(path, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (Import(path, node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.fullmatch(node.value):
            yield Import(path, node.lineno, node.value.partition(":")[0])


def layer_of(name: str) -> str:
    """The layer that a full name inside famulus belongs to. `from famulus import Client` is an import of client."""
    _, _, inside = name.partition(".")
    if inside in famulus._HOMES:
        inside = famulus._HOMES[inside].partition(".")[2]
    return row_of(inside.split(".")) or "__init__"


def row_of(parts: Sequence[str]) -> str | None:
    """The innermost one."""
    rows = (".".join(parts[:length]) for length in (2, 1))
    return next((row for row in rows if row in LAYERS), None)


def complaint(found: Import, home: str) -> str | None:
    rules = LAYERS[home]
    top = found.module.partition(".")[0]
    if top in NOWHERE:
        return f"{found}: nobody may"
    if top == "famulus":
        target = layer_of(found.module)
        names = {target, target.partition(".")[0]}
        allowed = target == home or (not names & rules.not_ours and (rules.ours is ANY or bool(names & rules.ours)))
    elif top in sys.stdlib_module_names:
        allowed = top not in rules.not_standard
    else:
        allowed = top not in rules.not_others and (rules.others is ANY or top in rules.others)
    return None if allowed else f"{found}: {home} may not"


def complaints(source: Path) -> list[str]:
    """Every breach of the table under this copy of the package, named by file, line and import."""
    found = []
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source)
        home = row_of(inside.with_suffix("").parts)
        if home is None:
            found.append(f"{path}: the table of layers has no row for {inside.parts[0]}")
            continue
        package = ".".join(("famulus", *inside.parts[:-1]))
        found += [said for each in imports_of(path, package) if (said := complaint(each, home)) is not None]
    return found


def test_every_import_is_in_the_table() -> None:
    assert not (found := complaints(SOURCE)), "\n".join(found)


@pytest.mark.parametrize(
    ("file", "line", "breach"),
    [
        ("errors.py", "from famulus.wire import reasons", "famulus.wire.reasons: errors may not"),
        ("wire/frames.py", "from famulus.core import clock", "famulus.core.clock: wire may not"),
        ("wire/frames.py", "import orjson", "orjson: wire may not"),
        ("core/dispatch/lru.py", "import time", "time: core may not"),
        ("core/dispatch/lru.py", "from os.path import join", "os.path.join: core may not"),
        ("core/dispatch/lru.py", "def late():\n    import zmq.asyncio", "zmq.asyncio: core may not"),
        ("core/dispatch/lru.py", "import nacl.signing", "nacl.signing: core may not"),
        ("core/dispatch/lru.py", "from ...net import pump", "famulus.net.pump: core may not"),
        (
            "core/timers.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from famulus.lab.sim.world import World",
            "famulus.lab.sim.world.World: core may not",
        ),
        ("core/timers.py", "from famulus import Client", "famulus.Client: core may not"),
        ("net/loop.py", "import famulus.broker.router", "famulus.broker.router: net may not"),
        ("broker/router.py", "import zmq", "zmq: broker may not"),
        ("broker/router.py", "from famulus import Client", "famulus.Client: broker may not"),
        ("client/threads.py", "from famulus.worker import task", "famulus.worker.task: client may not"),
        ("lab/sim/world.py", "import time", "time: lab.sim may not"),
        ("lab/sim/world.py", "from famulus.net import pump", "famulus.net.pump: lab.sim may not"),
        ("lab/bench/echo.py", "from famulus.lab.sim import world", "famulus.lab.sim.world: lab.bench may not"),
        ("cli/doctor.py", "from famulus.lab.bench import machine", "famulus.lab.bench.machine: cli may not"),
        ("broker/child.py", "MODULE = 'famulus.web.herald'", "famulus.web.herald: broker may not"),
        ("broker/child.py", "MODULE = 'famulus.lab.sim.world:run'", "famulus.lab.sim.world: broker may not"),
        ("web/status/board.py", "import time", "time: web.status may not"),
        ("web/status/board.py", "from famulus.web import app", "famulus.web.app: web.status may not"),
        (
            "pipeline/tables/audit.py",
            "from famulus.pipeline.io.place import Place",
            "famulus.pipeline.io.place.Place: pipeline.tables may not",
        ),
        ("tables/reading.py", "import pyspark.sql", "pyspark.sql: tables may not"),
        ("web/findings.py", "from famulus.pipeline.io import place", "famulus.pipeline.io.place: web may not"),
        ("cli/serve.py", "import zmq", "zmq: cli may not"),
        ("cli/serve.py", "import pickle", "pickle: nobody may"),
        ("lab/bench/echo.py", "from shelve import open", "shelve.open: nobody may"),
        ("attic/old.py", "import json", "the table of layers has no row for attic"),
    ],
)
def test_a_planted_import_is_caught(tmp_path: Path, file: str, line: str, breach: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"from __future__ import annotations\n{line}\n")
    (said,) = complaints(tmp_path)
    assert said.startswith(str(path))
    assert said.endswith(breach)
    if "imports" in said:
        assert f"{path}:{len(path.read_text().splitlines())} imports" in said


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("wire/frames.py", "import msgspec, json\nfrom famulus.errors import ProtocolError"),
        ("core/timers.py", "from . import clock\nfrom .dispatch.task import Task\nfrom famulus.errors import Closed"),
        ("net/loop.py", "import zmq\nfrom famulus.core import clock"),
        ("broker/keys.py", "import nacl.signing\nfrom famulus.errors import SettingsError"),
        ("lab/bench/echo.py", "import zmq\nfrom famulus import Client\nfrom famulus.net import pump"),
        ("cli/serve.py", "from famulus import __version__\nfrom famulus.web.status import views\nimport rich"),
        ("cli/main.py", "COMMAND = 'famulus.lab.commands.demo:demo'"),
        ("web/events.py", "from famulus.web.status.board import Board"),
        ("lab/sim/world.py", "from random import Random"),
    ],
)
def test_an_import_that_the_table_allows_is_left_alone(tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line + "\n")
    assert complaints(tmp_path) == []


def test_chance_in_the_simulation_comes_from_a_seed() -> None:
    """Only the class Random, and never without a seed: the module's own functions share one that nobody knows."""
    for path in sorted((SOURCE / "lab" / "sim").rglob("*.py")):
        for found in imports_of(path, "famulus.lab.sim"):
            if found.module.partition(".")[0] == "random":
                assert found.module == "random.Random", str(found)
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Random":
                assert node.args, f"{path}:{node.lineno} makes a Random without a seed"


def imports_by_file(source: Path) -> dict[str, set[str]]:
    """Which files each file imports, by their modules' names."""
    paths = {
        ".".join(("famulus", *path.relative_to(source).with_suffix("").parts)): path for path in source.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = ".".join(("famulus", *path.relative_to(source).parts[:-1]))
        homes = {_home_of(each.module, modules) for each in imports_of(path, package)}
        found[name] = homes - {name, ""}
    return found


def _home_of(name: str, modules: Collection[str]) -> str:
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def circle_in(source: Path) -> list[str]:
    """Files that import each other in a loop, if there are any."""
    try:
        TopologicalSorter(imports_by_file(source)).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_no_files_import_each_other_in_a_loop() -> None:
    assert circle_in(SOURCE) == []


def test_a_planted_loop_is_caught(tmp_path: Path) -> None:
    for name, imported in {"one": "two", "two": "three", "three": "one", "four": "one"}.items():
        (tmp_path / f"{name}.py").write_text(f"def late():\n    from famulus.{imported} import it\n")
    assert sorted(set(circle_in(tmp_path))) == ["famulus.one", "famulus.three", "famulus.two"]


@pytest.mark.parametrize("package", ["wire", "core", "net", "journal", "broker", "client", "admin"])
def test_whoever_is_called_says_with_what(package: str) -> None:
    """So that a task, an edit and a row can be followed from where they come in to where they end."""
    for path in sorted((SOURCE / package).rglob("*.py")):
        assert "Callable[...," not in path.read_text(), f"{path} calls something with anything"


def test_all_errors_are_in_one_file() -> None:
    """Those that somebody else is meant to catch, or a person to read."""
    tree = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, FamulusError)}
    named = re.compile(rf"\b({'|'.join(tree)})\b")
    for path in sorted(SOURCE.rglob("*.py")):
        # Who has one of them as a base names it; to parse a file takes longer than to search it.
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if named.search(text) else ():
            if isinstance(node, ast.ClassDef) and path != SOURCE / "errors.py":
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                assert not bases & tree, f"{node.name} in {path} belongs into errors.py"


def test_the_picture_of_the_errors_has_each_of_them() -> None:
    for name, each in vars(errors).items():
        if isinstance(each, type) and issubclass(each, FamulusError) and not name.startswith("_"):
            assert re.search(rf"\b{name}\b", errors.__doc__ or ""), f"{name} is missing at the top of errors.py"
