"""FAMULUS_CORE=python: the compiled modules are passed over, and their sources run instead.

For who looks for a mistake, or breaks the core on purpose: methods of compiled classes cannot be replaced.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

#: The pump has no Python source of its own; its twin is chosen by FAMULUS_PUMP.
_PUMP = "famulus.net._pump"


class _Sources:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("famulus.") or name == _PUMP:
            return None
        for folder in path or ():
            spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target)
            if spec is not None and spec.loader is not None:
                return spec
        return None


#: In the environment of a process that is to run the sources.
SWITCH = {"FAMULUS_CORE": "python"}


def choose_core() -> None:
    """To be called before the first of our modules is imported."""
    if os.environ.get("FAMULUS_CORE") == SWITCH["FAMULUS_CORE"]:
        sys.meta_path.insert(0, _Sources)


def check_choice() -> None:
    """What is wrong with FAMULUS_CORE, as a SettingsError: not at once, since an import must not fail for it."""
    from famulus.errors import SettingsError

    wish = os.environ.get("FAMULUS_CORE", "")
    if wish not in ("", "compiled", "python"):
        raise SettingsError(f"FAMULUS_CORE: must be compiled or python, not {wish!r}")
    if wish == "compiled" and not is_compiled():
        raise SettingsError(
            "FAMULUS_CORE=compiled, but nothing is compiled: it needs a C compiler when it is installed"
        )


def is_compiled() -> bool:
    from famulus.core.dispatch import dispatcher

    return not str(dispatcher.__file__).endswith(".py")
