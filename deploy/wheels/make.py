#!/usr/bin/env python3
"""Makes what goes to a package index: a source archive, and of that a wheel with all that is compiled.

    .venv/bin/python deploy/wheels/make.py --output dist

Nothing is downloaded: it takes a Python that has the packages of [build-system] in pyproject.toml, a C compiler, and
`auditwheel` and `patchelf` for a wheel that other machines can use. docs/deployment.md has the whole of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: What a build reads, besides src.
NEEDED = ("LICENSE", "MANIFEST.in", "README.md", "compiled.txt", "pyproject.toml", "setup.py")
NOT_COPIED = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")

MAKE_ARCHIVE = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
#: Run with nothing but what was unpacked: that it can be imported, and is compiled.
TRY = """
import sys
import famulus
assert famulus.__file__.startswith(sys.argv[1])
from famulus._plain import is_compiled
from famulus.journal import _packing
from famulus.net import _pump
assert is_compiled()
"""


class Failure(Exception):
    """Why there is nothing, or not what there should be."""


def make_archive(python: str, output: Path) -> Path:
    with tempfile.TemporaryDirectory() as temporary:
        # A copy: setuptools leaves files behind, and would take up what an earlier build has left.
        copy = Path(temporary) / "famulus"
        shutil.copytree(ROOT / "src", copy / "src", ignore=NOT_COPIED)
        for name in NEEDED:
            shutil.copy(ROOT / name, copy / name)
        told = run([python, "-c", MAKE_ARCHIVE, str(output)], copy)
    return output / told.split()[-1]


def make_wheel(python: str, archive: Path, output: Path) -> Path:
    """Of the archive, as somebody else would, so that it is complete."""
    with tempfile.TemporaryDirectory() as temporary:
        with tarfile.open(archive) as packed:
            packed.extractall(temporary, filter="data")
        (unpacked,) = Path(temporary).iterdir()
        made = Path(temporary) / "made"
        run(
            [python, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(made), "."], unpacked
        )
        (wheel,) = made.glob("*.whl")
        return Path(shutil.copy(wheel, output))


def missing_from(names: list[str], compiled: list[str]) -> list[str]:
    """Without a compiler the build goes on in plain Python; here that is a mistake."""
    modules = [*(path.removeprefix("src/").removesuffix(".py") for path in compiled)]
    modules += ["famulus/net/_pump", "famulus/journal/_packing"]
    libraries = [name for name in names if name.endswith(".so")]
    return [module for module in modules if not any(name.startswith(f"{module}.") for name in libraries)]


def check(python: str, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed, tempfile.TemporaryDirectory() as temporary:
        missing = missing_from(packed.namelist(), (ROOT / "compiled.txt").read_text().split())
        if missing:
            raise Failure(f"{wheel.name} lacks compiled modules ({', '.join(missing)}): is there a C compiler?")
        packed.extractall(temporary)
        run(
            [python, "-c", TRY, temporary],
            Path(temporary),
            PYTHONPATH=temporary,
            FAMULUS_CORE="compiled",
            FAMULUS_PUMP="native",
        )


def for_other_machines(wheel: Path) -> Path | None:
    """With the tag of the oldest system that it runs on; None if the tools for that are not here."""
    if shutil.which("auditwheel") is None or shutil.which("patchelf") is None:
        return None
    with tempfile.TemporaryDirectory() as temporary:
        run(["auditwheel", "repair", "--wheel-dir", temporary, str(wheel)], wheel.parent)
        (repaired,) = Path(temporary).glob("*.whl")
        wheel.unlink()
        return Path(shutil.copy(repaired, wheel.parent))


def run(command: list[str], folder: Path, **more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FAMULUS_CORE")}
    done = subprocess.run(
        command, cwd=folder, env={**environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise Failure(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description="Make a source archive and a wheel of Famulus.")
    parser.add_argument("--output", type=Path, default=Path("dist"), help="the folder for them [default: dist]")
    parser.add_argument("--python", default=sys.executable, help="for which Python [default: this one]")
    parser.add_argument("--only-archive", action="store_true", help="make no wheel")
    asked = parser.parse_args()
    output = asked.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    try:
        archive = make_archive(asked.python, output)
        print(archive)
        if asked.only_archive:
            return 0
        wheel = make_wheel(asked.python, archive, output)
        check(asked.python, wheel)
        repaired = for_other_machines(wheel)
    except Failure as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 1
    print(repaired or wheel)
    if repaired is None:
        print(
            "make.py: this wheel is for machines like this one, and a package index does not take it: auditwheel or "
            "patchelf is not here. Run it in an image of manylinux (docs/deployment.md).",
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
