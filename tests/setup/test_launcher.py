"""`./famulus` sets itself up once, redoes what was interrupted, and says plainly what it lacks.

The script runs in a copy of the checkout's bare bones, with a `python3` that only notes how it was called: no
network, no real virtual environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = (
    "requirements.lock",
    "pyproject.toml",
    "setup.py",
    "compiled.txt",
    "src/famulus/net/_pump.c",
    "src/famulus/net/_wire.h",
)
TOOLS = ("cat", "cksum", "cp", "env", "flock", "mkdir", "mv", "readlink", "rm", "sed", "sh", "sleep", "touch")

# Stands for every Python: on the PATH, and in .venv, where `famulus` is another copy of it.
FAKE_PYTHON = """#!/bin/sh
echo "${0##*/} $*" >>"$FAKE_LOG"
case "$*" in
    *version_info*) echo "$FAKE_VERSION" ;;
    *"import ensurepip"*) [ -z "${FAKE_NO_VENV-}" ] ;;
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    *"pip install --require-hashes"*) sleep "${FAKE_PIP_SECONDS-0}"; [ -z "${FAKE_PIP_FAILS-}" ] ;;
    *"pip install --no-deps"*)
        cp "$0" "${0%/*}/famulus"
        [ -n "${FAKE_NO_COMPILER-}" ] || touch "${0%/*}/../../src/famulus/net/_pump.fake.so" ;;
esac
"""


class Checkout:
    """A copy of the launcher and the files that it watches, with its own PATH."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "check out"  # a space: paths must be quoted
        self.bin = folder / "bin"
        self.log = folder / "log"
        self.log.touch()
        compiled = (REPOSITORY / "compiled.txt").read_text().split()
        for name in ("famulus", *SOURCES, *compiled):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, self.root / name)
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (self.bin / tool).symlink_to(found)

    def add_python(self, name: str = "python3") -> None:
        (self.bin / name).write_text(FAKE_PYTHON)
        (self.bin / name).chmod(0o755)

    def command(self, **environment: str) -> dict[str, str]:
        return {"PATH": str(self.bin), "FAKE_LOG": str(self.log), "FAKE_VERSION": "3.12", **environment}

    def run(self, *args: str, script: Path | str | None = None, cwd: Path | None = None, **environment: str) -> Result:
        """Run the launcher; the calls are those that this run made."""
        before = len(self.log.read_text())
        done = subprocess.run(
            [script or self.root / "famulus", *args],
            cwd=cwd or self.root,
            env=self.command(**environment),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return Result(done.returncode, done.stderr.splitlines(), self.log.read_text()[before:].splitlines())


class Result:
    def __init__(self, code: int, said: list[str], calls: list[str]) -> None:
        self.code = code
        self.said = said
        self.calls = calls

    @property
    def set_up(self) -> bool:
        return any("pip install" in call for call in self.calls)


@pytest.fixture
def bare(tmp_path: Path) -> Checkout:
    """A machine without any Python."""
    return Checkout(tmp_path)


@pytest.fixture
def checkout(bare: Checkout) -> Checkout:
    bare.add_python()
    return bare


def test_without_python_it_says_so_in_one_line(bare: Checkout) -> None:
    result = bare.run()
    assert result.code == 1
    (line,) = result.said
    assert "Python 3.11 or newer is needed, and none was found" in line


@pytest.mark.parametrize("version", ["2.7", "3.9", "3.10"])
def test_a_python_too_old_is_named(checkout: Checkout, version: str) -> None:
    result = checkout.run(FAKE_VERSION=version)
    assert result.code == 1
    (line,) = result.said
    assert f"Python 3.11 or newer is needed, and only {version} was found" in line


@pytest.mark.parametrize("version", ["3.11", "3.14", "3.20", "4.0"])
def test_a_python_new_enough_serves(checkout: Checkout, version: str) -> None:
    assert checkout.run(FAKE_VERSION=version).code == 0


def test_a_shim_that_does_not_run_is_passed_over(bare: Checkout) -> None:
    (bare.bin / "python3").write_text("#!/bin/sh\necho 'no such version' >&2\nexit 127\n")
    (bare.bin / "python3").chmod(0o755)
    bare.add_python("python3.13")
    result = bare.run()
    assert result.code == 0
    assert result.calls[0].startswith("python3.13 ")
    assert not any("no such version" in line for line in result.said)


def test_the_python_asked_for_is_taken_and_none_else(checkout: Checkout) -> None:
    checkout.add_python("mine")
    assert checkout.run(FAMULUS_PYTHON="mine").calls[0].startswith("mine ")
    refused = checkout.run(FAMULUS_PYTHON="nowhere")
    assert refused.code == 1
    assert refused.said == ["famulus: FAMULUS_PYTHON=nowhere does not run"]


def test_a_missing_venv_module_is_named_with_its_remedy(checkout: Checkout) -> None:
    result = checkout.run(FAKE_NO_VENV="yes")
    assert result.code == 1
    assert result.said == ["famulus: Python 3.12 has no venv module; on Debian or Ubuntu: apt install python3.12-venv"]


def test_a_first_start_sets_up_and_passes_the_arguments_on(checkout: Checkout) -> None:
    result = checkout.run("call", "a b", "--json")
    assert result.code == 0
    assert result.set_up
    assert result.calls[-1] == "famulus call a b --json"
    assert all(line.startswith("famulus: ") for line in result.said)


def test_a_second_start_runs_the_program_and_nothing_else(checkout: Checkout) -> None:
    checkout.run()
    result = checkout.run("doctor")
    assert result.calls == ["famulus doctor"]
    assert result.said == []


def test_who_asks_for_no_python_takes_what_another_asked_for(checkout: Checkout) -> None:
    checkout.add_python("mine")
    checkout.run(FAMULUS_PYTHON="mine")
    assert not checkout.run().set_up
    assert not checkout.run(FAMULUS_PYTHON="mine").set_up
    assert checkout.run(FAMULUS_PYTHON="python3").set_up


def test_a_symlink_and_another_folder_find_the_checkout(checkout: Checkout, tmp_path: Path) -> None:
    checkout.run()
    links = tmp_path / "links"
    links.mkdir()
    (links / "far").symlink_to(checkout.root / "famulus")
    (links / "famulus").symlink_to("far")
    assert checkout.run("x", script=links / "famulus", cwd=links).calls == ["famulus x"]
    assert checkout.run("x", cwd=tmp_path).calls == ["famulus x"]
    assert checkout.run("x", script="./famulus").calls == ["famulus x"]


@pytest.mark.parametrize("name", [*SOURCES, "src/famulus/core/dispatch/dispatcher.py"])
def test_a_changed_source_refreshes_what_is_there(checkout: Checkout, name: str) -> None:
    checkout.run()
    with (checkout.root / name).open("a") as file:
        file.write("\n")
    result = checkout.run()
    assert result.set_up
    assert not any("-m venv" in call for call in result.calls)
    assert not checkout.run().set_up


def test_a_moved_checkout_is_set_up_anew(checkout: Checkout, tmp_path: Path) -> None:
    checkout.run()
    checkout.root = checkout.root.rename(tmp_path / "elsewhere")
    assert any("-m venv" in call for call in checkout.run().calls)


def test_an_interrupted_set_up_begins_anew(checkout: Checkout) -> None:
    failed = checkout.run(FAKE_PIP_FAILS="yes")
    assert failed.code == 1
    assert failed.said[-1] == "famulus: pip could not install the packages (see above)"
    left = checkout.root / ".venv/half-done"
    left.touch()
    assert checkout.run().code == 0
    assert not left.exists()


def test_without_a_compiler_it_says_so_and_goes_on(checkout: Checkout) -> None:
    folders = (".", "famulus/net", "famulus/core", "famulus/core/dispatch")
    stale = [checkout.root / "src" / folder / "module.old.so" for folder in folders]
    for library in stale:
        library.touch()
    result = checkout.run("x", FAKE_NO_COMPILER="yes")
    assert result.code == 0
    assert sum("going on in plain Python" in line for line in result.said) == 1
    assert result.calls[-1] == "famulus x"
    assert not any(library.exists() for library in stale)


def test_two_at_the_same_time_set_up_once(checkout: Checkout) -> None:
    environment = checkout.command(FAKE_PIP_SECONDS="0.3")
    both = [
        subprocess.Popen([checkout.root / "famulus", "x"], env=environment, stderr=subprocess.DEVNULL) for _ in range(2)
    ]
    assert [process.wait(timeout=30) for process in both] == [0, 0]
    calls = checkout.log.read_text().splitlines()
    assert sum("--require-hashes" in call for call in calls) == 1
    assert calls.count("famulus x") == 2


def test_the_real_script_is_executable() -> None:
    assert os.access(REPOSITORY / "famulus", os.X_OK)
    assert os.access(REPOSITORY / ".ci/run", os.X_OK)
