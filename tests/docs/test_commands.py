"""Every command and every example of README and docs is run, as it stands there.

The rule: each line of a fenced `sh` block is a command, and the commands of a page are run in order, in a folder of its
own. Other blocks whose first line is a file's name in a comment (`# hello.py`) are written to that folder before. One
broker serves all pages. What serves (SERVERS) is started, waited for, and stopped with SIGTERM at the end of its page.
What takes long is SHORTENED, what needs more is ADDED to, what cannot be run is EXEMPT: all in the tables below, and
nowhere else. A line that fits nothing of this fails. The tutorial is run as it is, by test_tutorial.py.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.deploy.command_lines import parse
from tests.longer import longer
from tests.processes import warm
from tests.processes.ports import free_ports

from famulus.wire import inner

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: How a command may begin, and what that is in this test.
PROGRAMS = {
    "./famulus": f"{shlex.quote(sys.executable)} -m famulus",
    ".venv/bin/python": shlex.quote(sys.executable),
}

#: Commands that are not run, each with the reason.
EXEMPT = {
    "./famulus test": "it would run this very test again",
    "./famulus test --quick": "whoever runs this one runs those, too",
    "./famulus demo": "it takes half a minute; tests/processes/test_bench_and_demo.py plays it in longer runs",
    "./famulus demo --loop": "the same; tests/processes/test_closing_the_loop.py does what it does",
    "./famulus admins passwd": "it asks at the terminal",
    "./famulus admins passwd ben --family london": "it asks at the terminal",
    "./famulus config resolve service/echo --choose 3b8b1e": "it needs brokers that were parted, as in test_network.py",
    "./famulus config resolve service/echo --value '{\"timeout_ms\": 4000}'": "the same",
    "./famulus status --watch": "it goes on until Ctrl-C; tests/unit/cli/test_status.py plays it",
    "./famulus tasks --follow --service order --outcome ERROR": "the same; tests/processes/test_herald.py does it",
    "./famulus top": "it needs a terminal; tests/processes/test_status_commands.py gives it one",
    **dict.fromkeys(
        (
            "./famulus pipeline synth journal --tasks 2000 --hours 2",
            "./famulus pipeline run --journal journal --tables tables",
            './famulus pipeline query --tables tables "SELECT service, sum(tasks) AS tasks FROM service_minutes '
            'GROUP BY service"',
            "./famulus pipeline report --tables tables --output report.html",
            "./famulus findings --tables tables",
            "./famulus pipeline compare --tables tables --at 2026-03-02T01",
            "./famulus pipeline whatif --tables tables --load x2",
            './famulus pipeline query --tables tables "SELECT service, at, tasks, bad, round(burn_rate, 1) AS rate, '
            'round(burnt, 1) AS burnt, fast_minutes FROM objectives ORDER BY at"',
            './famulus pipeline query --tables tables "SELECT service, at, queue_p50_ns / 1e6 AS wait, '
            "service_p50_ns / 1e6 AS run, queue_p99_ns / 1e6 AS wait_p99, service_p99_ns / 1e6 AS run_p99 "
            'FROM service_hours ORDER BY wait_p99 DESC LIMIT 4"',
            "./famulus pipeline run --journal b1/journal --tables tables",
            './famulus pipeline query --tables tables "SELECT service, tasks, ok, errors, rejected, unknown FROM '
            'service_days"',
        ),
        "Spark takes longer than a page may; tests/pipeline/jobs/test_commands.py runs them from the page",
    ),
    **dict.fromkeys(
        (
            "./famulus simulate --policy key --mutant key-is-ignored",
            "./famulus simulate --what overload --mutant nobody-learns",
            "./famulus simulate --mutant late-answer-keeps-slot",
            "./famulus simulate --brokers 0 --mutant higher-version",
            "./famulus simulate --brokers 0 --what tasks --mutant ignores-via",
            "./famulus simulate --brokers 0 --what rights --mutant workers-stay",
        ),
        "tests/simulation has this command catch each mutant",
    ),
    "./famulus fuzz": "it takes minutes; tests/unit/lab/fuzz has some seconds of it",
    "./famulus chaos --seconds 300 --seed 7": "it takes minutes; tests/processes/test_chaos.py has seconds of it",
    **dict.fromkeys(
        (
            "./famulus bench pipeline --tasks 1000000",
            "./famulus bench pipeline --tasks 72000 --hours 24 --more-hours 1",
            "./famulus bench pipeline --tasks 72000 --hours 720 --more-hours 1",
            "./famulus bench pipeline --tasks 20000 --hours 6 --brokers 50 --files 4",
        ),
        "it takes minutes; tests/pipeline/jobs/test_bench.py has its parts",
    ),
    "./famulus bench serve": "the same; tests/pipeline/serving/test_serve.py has its parts",
}

#: Ids of edits that stand in the docs: which of the edits of their key they are.
EDITS = {"70e801288f4c": -1, "70e801": 0, "9e7ec4": 1}


#: The default ports of a broker of a network, and those of others in the docs, may be somebody else's.
PORTS_OF_DOCS = [first + each for first in (7100, 7200, 7300) for each in range(4)]
PORTS = dict(zip(PORTS_OF_DOCS, free_ports(12), strict=True))
FIRST_PORTS = "--frontend-port 7100 --backend-port 7101 --config-pub-port 7102 --peer-port 7103"

#: What takes long is cut short: each pattern with what takes its place.
SHORTENED = (
    (r"^(\./famulus simulate.*)--seeds \d+", r"\1--seeds 2"),
    (r"^(\./famulus simulate.*--seeds 2(?!.*--jobs))$", r"\1 --jobs 1"),
    # Whoever runs tests/processes/test_conform.py runs them all.
    (r"^(\./famulus conform \w+) -- ", r"\1 --rule outcomes -- "),
    (r"^(\./famulus fuzz.*)$", r"\1 --inputs 300 --seconds 5"),
    (r"^(\./famulus test tests/\S+)$", r"\1 --collect-only"),  # whoever runs this one runs those, too
    (r"^(\./famulus bench echo.*)$", r"\1 --seconds 0.5 --rounds 1"),  # the last one of an option counts
    (r"^(\./famulus bench recovery.*)$", r"\1 --rounds 1 --seconds 1 --busy 1"),
    (r"^(\./famulus bench viewers.*)$", r"\1 --viewers 3 --seconds 0.5 --rounds 1"),
    (r"^(\./famulus bench journal.*)$", r"\1 --seconds 0.5 --rounds 1 --soak 1"),
    (r"^(\./famulus bench overload.*)$", r"\1 --seconds 1 --timeout 0.5 --no-slow"),
    (r"^(\./famulus bench arrivals.*)$", r"\1 --connections 50 --rounds 1"),
    (r"^(\./famulus bench policy.*)$", r"\1 --seconds 1 --rounds 1"),
    (r"^(\./famulus bench batch.*)$", r"\1 --seconds 0.5 --rounds 1"),
    (r"^(\./famulus bench streams.*)$", r"\1 --parts 5000 --rounds 1"),
    (r"^(\./famulus bench spark.*)$", r"\1 --rows 2000 --many-rows 20000 --rounds 1"),
    (r"^(\./famulus bench peers --secure.*)$", r"\1 --seconds 0.3 --rounds 1 --only famulus"),
    (
        r"^(\./famulus bench peers(?! --secure).*)$",
        r"\1 --seconds 0.3 --rounds 1 --only famulus_map_1000 --only proxy_1000",
    ),
    (r"^(\./famulus bench scale.*)$", r"\1 --quick"),
    (r"^(\./famulus bench latency.*)$", r"\1 --seconds 0.5"),
    (r"^(\./famulus init.*)$", rf"\1 {FIRST_PORTS}"),
    *((rf"(--join \S+:|port ){port}\b", rf"\g<1>{free}") for port, free in PORTS.items()),
)

#: What commands that begin like this get in addition.
ADDED = {
    "./famulus broker": "--frontend-port 0 --backend-port 0 --http-port 0",  # the default ports may be somebody else's
    "./famulus docs serve": "--port 0",
    "./famulus worker": "--broker 127.0.0.1:7101",  # a module may name an address of its own
}

#: Commands that serve until they are stopped: how they begin, the line that says that they are ready, the exit code.
SERVERS = (
    ("./famulus broker", r"^broker .* is ready: clients (\S+), workers (\S+) ", 0),
    ("./famulus worker", r"worker .* is ready: ", 0),
    ("./famulus docs serve", r"^the documentation is ready: ", 0),
    (".venv/bin/python examples/plain_worker.py", r"^ready", -signal.SIGTERM),  # it looks after no signals
)
#: Except when they are asked for something else.
NO_SERVERS = ("--check", "--help", "--show-key")

#: What only a shell understands.
FOR_A_SHELL = set("|<>&;$*?~")

#: Several times as long as on an idle machine.
READY_S = 80.0
COMMAND_S = 150.0


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    line: int
    text: str

    @property
    def file_name(self) -> str:
        """The name in its first line, if there is one."""
        named = re.match(r"# (\w+\.\w+)\n", self.text)
        return named[1] if named and self.language != "sh" else ""


def blocks_of(page: Path) -> list[Block]:
    found: list[Block] = []
    opened: tuple[str, int] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif opened is None:
            opened, lines = (line[3:].strip(), number), []
        else:
            found.append(Block(*opened, "\n".join(lines) + "\n"))
            opened = None
    assert opened is None, f"{page}: a fenced block has no end"
    return found


def lines_of(page: Path) -> list[str]:
    """The commands, and comments among them."""
    lines = [line.strip() for block in blocks_of(page) if block.language == "sh" for line in block.text.splitlines()]
    return [line for line in lines if line]


def commands_of(page: Path) -> list[str]:
    return [line for line in lines_of(page) if not line.startswith("#")]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# -- running ------------------------------------------------------------------------------------------------------


class Running:
    """A command that was started, with what it says in a file."""

    def __init__(self, command: str, folder: Path, env: dict[str, str]) -> None:
        self.command = command
        self._said = folder / f"said-{time.monotonic_ns()}.txt"
        with self._said.open("wb") as output:
            self._process = warm.Popen(
                ["sh", "-c", f"exec {command}"] if FOR_A_SHELL & {*command} else shlex.split(command),
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._said.read_text("utf-8", "replace")

    def wait_for_line(self, pattern: str) -> re.Match[str]:
        until = time.monotonic() + READY_S
        while (match := re.search(pattern, self.said, re.MULTILINE)) is None:
            assert self._process.poll() is None, f"{self.command} ended with {self._process.returncode}:\n{self.said}"
            assert time.monotonic() < until, f"{self.command} is not ready after {READY_S} s:\n{self.said}"
            time.sleep(0.01)
        return match

    def wait(self, within_s: float) -> int:
        return self._process.wait(within_s)

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self.wait(READY_S)

    def close(self) -> None:
        """Whatever is still there goes: first as with Ctrl-C, so that it stops what it started, then at once."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def begins(command: str, beginning: str) -> bool:
    """Whole words: `famulus workers` is not `famulus worker`."""
    return f"{command} ".startswith(f"{beginning} ")


def as_run(command: str, env: dict[str, str]) -> str:
    """What is really run for a command of the docs."""
    for pattern, replacement in SHORTENED:
        command = re.sub(pattern, replacement, command)
    for beginning, addition in ADDED.items():
        if begins(command, beginning) and "--check" not in command and "--folder" not in command:
            command = f"{command} {addition}"
    for program, real in PROGRAMS.items():
        if command.split()[0] == program:
            command = real + command.removeprefix(program)
        command = command.replace(f" -- {program} ", f" -- {real} ")
    for default, variable in (("127.0.0.1:7100", "FAMULUS_FRONTEND"), ("127.0.0.1:7101", "FAMULUS_BACKEND")):
        command = command.replace(default, env[variable].removeprefix("tcp://"))
    return command


def server_of(command: str) -> tuple[str, int] | None:
    """The ready line and the exit code of a command that serves."""
    if any(flag in command for flag in NO_SERVERS):
        return None
    return next((rest for beginning, *rest in SERVERS if begins(command, beginning)), None)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment that names a broker of our own."""
    addresses = {"FAMULUS_FRONTEND": "-", "FAMULUS_BACKEND": "-", "FAMULUS_HTTP": "-"}
    admin = {"FAMULUS_ADMIN": "ann", "FAMULUS_ADMIN_PASSWORD": "only for this test"}
    plain = {**os.environ, "PYTHONUNBUFFERED": "1", **addresses, **admin}
    broker = Running(as_run("./famulus broker", plain), tmp_path_factory.mktemp("broker"), plain)
    try:
        ready = broker.wait_for_line(SERVERS[0][1])
        http = broker.wait_for_line(r"dashboard: (\S+)$")
        yield {**plain, "FAMULUS_FRONTEND": ready[1], "FAMULUS_BACKEND": ready[2], "FAMULUS_HTTP": http[1]}
        assert broker.stop() == 0, broker.said
    finally:
        broker.close()


def with_true_ids(command: str, folder: Path, env: dict[str, str]) -> str:
    """The ids of edits in the docs are made up; here are those of the network at hand."""
    for made_up, number in EDITS.items():
        if re.search(rf"\b{made_up}\b", command):
            key = next(word for word in command.split() if "/" in word and not word.startswith("./"))
            asked = as_run(f"./famulus config history {key} --json", env)
            told = warm.run(shlex.split(asked), cwd=folder, env=env, capture_output=True, text=True, check=True)
            command = re.sub(rf"\b{made_up}\b", json.loads(told.stdout)["edits"][number]["id"], command)
    return command


def write_files(page: Path, folder: Path) -> None:
    for name in ("deploy", "examples"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "ben.txt").write_text("a password of his own\n")
    for block in blocks_of(page):
        if block.file_name:
            (folder / block.file_name).write_text(block.text, "utf-8")


TUTORIAL = ROOT / "docs/tutorial.md"
#: Pages of measurements: each command takes seconds of all cores, however short it is made.
MEASURING = {ROOT / "docs" / name for name in ("benchmarks.md", "peers.md")}
WITH_COMMANDS = [
    pytest.param(page, marks=[longer] if page in MEASURING else [], id=name_of(page))
    for page in PAGES
    if commands_of(page) and page != TUTORIAL
]


@pytest.mark.timeout(400)  # a page may have thirty of them, each a process of its own
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_every_command_of_the_page_runs(page: Path, tmp_path: Path, env: dict[str, str]) -> None:
    write_files(page, tmp_path)
    servers: list[tuple[Running, int]] = []
    home = ""
    with ExitStack() as closing:
        for command in commands_of(page):
            if command in EXEMPT:
                continue
            assert command.split()[0] in PROGRAMS, f"{command!r} is neither run nor exempt"
            running = Running(as_run(with_true_ids(command, tmp_path, env), env), tmp_path, env)
            closing.callback(running.close)
            server = server_of(command)
            if server is None:
                assert running.wait(COMMAND_S) == 0, f"{command}:\n{running.said}"
            else:
                ready = running.wait_for_line(server[0])
                servers.append((running, server[1]))
                if command.startswith("./famulus broker --folder") and "--join" not in command:
                    home = home or command
                if command == home:
                    # The first broker of a network: what follows on the page is about it.
                    env = {**env, "FAMULUS_FRONTEND": ready[1], "FAMULUS_BACKEND": ready[2]}
        for running, code in reversed(servers):
            assert running.stop() == code, f"{running.command}:\n{running.said}"


def test_no_exemption_is_left_over() -> None:
    written = {command for page in PAGES for command in commands_of(page)}
    assert set(EXEMPT) <= written


def commands_that_are_not_run() -> list[str]:
    """Those that need more than a page has: they stand in blocks without a language, as what is printed does."""
    blocks = [block for page in PAGES for block in blocks_of(page) if not block.language]
    lines = [line.strip() for block in blocks for line in block.text.splitlines()]
    return [*(line for line in lines if begins(line, "./famulus")), *(each for each in EXEMPT if "test" not in each)]


@pytest.mark.parametrize("command", commands_that_are_not_run())
def test_a_command_that_is_not_run_could_be(command: str) -> None:
    """It is one of ours, and has no option that there is not."""
    parse(shlex.split(command))


def test_an_unknown_command_would_be_noticed(tmp_path: Path, env: dict[str, str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\n./famulus --version\nrm --no-such-thing\n```\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(AssertionError, match="neither run nor exempt"):
        test_every_command_of_the_page_runs(page, folder, env)


# -- other blocks -------------------------------------------------------------------------------------------------

#: Pages whose files are run by a test of their own, since they need Spark: tests/pipeline/serving/test_serve.py.
RUN_APART = {"spark-worker.md"}
BLOCKS = [(page, block) for page in PAGES for block in blocks_of(page)]


def label(value: object) -> str:
    if isinstance(value, Path):
        return name_of(value)
    return str(value.line) if isinstance(value, Block) else str(value)


@pytest.mark.parametrize(
    ("page", "block"), [each for each in BLOCKS if each[1].file_name and each[0].name not in RUN_APART], ids=label
)
def test_every_file_of_the_page_is_used_by_one_of_its_commands(page: Path, block: Block) -> None:
    stem = re.escape(block.file_name.partition(".")[0])
    assert any(re.search(rf"\b{stem}\b", command) for command in commands_of(page)), block.file_name


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_every_block_is_valid_in_its_language(page: Path) -> None:
    for block in blocks_of(page):
        match block.language:
            case "python":
                compile(block.text, name_of(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)
            case "sh" | "sh machines" | "ini" | "" | "hex question" | "sql":
                pass
            case other:
                pytest.fail(f"{name_of(page)}, line {block.line}: nobody checks blocks of {other!r}")


def test_the_question_in_bytes_is_one() -> None:
    (block,) = [block for _, block in BLOCKS if block.language == "hex question"]
    octets = [re.match(r"(\s*[0-9a-f]{2}\b)*", line) for line in block.text.splitlines()]
    frame = bytes.fromhex(" ".join(match[0] for match in octets if match))
    ((number, origin, principal, header),) = inner.read_batch(frame)
    assert (len(number), origin, principal) == (8, inner.FROM_CLIENT, b"")
    assert header == b'{"request":"TASK","type":"REQUEST","service":"echo","timeout_ms":2000}'
    assert inner.write_batch([[number, origin, principal, header]]) == frame
