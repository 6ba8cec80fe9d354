"""What goes into a source archive and into a wheel, as setuptools sees it. Builds nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
#: Only for a compiler.
SOURCES_IN_C = {".c", ".h"}

#: Without the extensions of setup.py, which would take a while; their sources have to be named in MANIFEST.in.
LISTING = """
import json, sys
from setuptools import Distribution
project = Distribution({"script_name": "setup.py"})
project.parse_config_files()
info = project.get_command_obj("egg_info")
info.egg_base = sys.argv[1]
info.ensure_finalized()
info.run()
build = project.get_command_obj("build_py")
build.ensure_finalized()
modules = [path for _, _, path in build.find_all_modules()]
data = [f"{folder}/{name}" for _, folder, _, names in build.data_files for name in names]
print(json.dumps({"archive": info.filelist.files, "wheel": [*modules, *data]}))
"""


@cache
def tracked() -> list[str]:
    try:
        told = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("it takes git and a checkout")
    return [path for path in told.stdout.split() if (ROOT / path).exists()]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    command = [sys.executable, "-W", "ignore", "-c", LISTING, str(tmp_path_factory.mktemp("info"))]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    listed: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return {name: set(files) for name, files in listed.items()}


def test_every_file_of_the_package_is_in_the_source_archive(packed: dict[str, set[str]]) -> None:
    assert set(tracked()) - packed["archive"] == set()


def test_the_source_archive_has_what_its_build_reads(packed: dict[str, set[str]]) -> None:
    assert {"LICENSE", "README.md", "compiled.txt", "pyproject.toml", "setup.py"} <= packed["archive"]


def test_nothing_that_was_built_is_in_the_source_archive(packed: dict[str, set[str]]) -> None:
    assert [path for path in packed["archive"] if re.search(r"\.(so|pyc|o)$", path)] == []


def test_every_file_that_is_read_at_run_time_is_in_the_wheel(packed: dict[str, set[str]]) -> None:
    needed = {path for path in tracked() if Path(path).suffix not in SOURCES_IN_C}
    assert needed - packed["wheel"] == set()
