"""Adds to pyproject.toml what it cannot say yet: the native pump, the journal's packing, and the hot modules compiled
from their own Python.

All are optional: without a compiler the twins of the two and the same modules serve as plain Python.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

COMPILED = Path("compiled.txt").read_text().split()
#: The parts of the native pump.
PUMP = ("_pump", "_messages", "_seal", "_wire", "_stream", "_connections", "_waiting")


#: Commands that compile nothing. Others are asked about the project before and after, and mypyc would take its time.
COMPILE_NOTHING = {"dist_info", "egg_info", "sdist"}


class Building(build_ext):
    def build_extensions(self) -> None:
        # The files of mypyc make one extension, and setuptools would compile one after the other.
        compile_some = self.compiler.compile

        def compile_at_once(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as compilers:
                made = compilers.map(lambda source: compile_some([source], **options), sources)
                return [each for some in made for each in some]

        self.compiler.compile = compile_at_once
        super().build_extensions()

    def run(self) -> None:
        super().run()
        # mypyc puts the code of all modules into one library; a module without it, or it without one, is no use.
        compiled = [Path(self.get_ext_fullpath(extension.name)) for extension in compiled_modules]
        if not all(path.exists() for path in compiled):
            for path in compiled:
                path.unlink(missing_ok=True)
        # A compiled module hides its source. From this the tests can tell whether it is still the same.
        Path("compiled.sha256").write_text(sources_digest())


def sources_digest() -> str:
    return sha256(b"".join(Path(name).read_bytes() for name in COMPILED)).hexdigest()


def pump() -> Extension:
    return Extension(
        "famulus.net._pump",
        [f"src/famulus/net/{name}.c" for name in PUMP],
        extra_compile_args=["-O2", "-std=c11", "-Wall", "-Wextra"],
    )


def packing() -> Extension:
    return Extension(
        "famulus.journal._packing",
        ["src/famulus/journal/_packing.c"],
        extra_compile_args=["-O2", "-std=c11", "-Wall", "-Wextra"],
    )


def hot_modules() -> list[Extension]:
    """Those that every task passes. Modules that define msgspec's structs cannot be among them."""
    if COMPILE_NOTHING & {*sys.argv}:
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    # A file of C for each module: one for all of them would keep one core busy for minutes, and leave the others idle.
    return mypycify(
        ["--no-warn-unused-ignores", *COMPILED], debug_level="0", multi_file=True, group_name="famulus", verbose=False
    )


compiled_modules = hot_modules()
extensions = [pump(), packing(), *compiled_modules]
for extension in extensions:
    extension.optional = True
setup(ext_modules=extensions, cmdclass={"build_ext": Building})
