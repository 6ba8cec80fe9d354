"""Modules of users, as commands name them: `MODULE[:NAME]`, looked for in the current folder first."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from famulus.errors import SettingsError


def split(target: str) -> tuple[str, str]:
    """The module and the name in it, which may be empty."""
    module, _, name = target.partition(":")
    if module.endswith(".py") or "/" in module:
        raise SettingsError(f"{target!r}: name a module as Python imports it, such as shop or shop.workers:worker")
    return module, name


def look_for(module_name: str, target: str) -> None:
    """Whether the module is there, without importing it."""
    _look_here_first()
    with _clear_errors(module_name, target):
        if find_spec(module_name) is None:
            raise ModuleNotFoundError(name=module_name)


def imported(module_name: str, target: str) -> ModuleType:
    """The module, or one clear sentence about why there is none."""
    _look_here_first()
    with _clear_errors(module_name, target):
        return import_module(module_name)


def _look_here_first() -> None:
    if sys.path[:1] != [os.getcwd()]:
        sys.path.insert(0, os.getcwd())


@contextmanager
def _clear_errors(module_name: str, target: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise SettingsError(f"{module_name} cannot be imported: {error}") from None
        raise SettingsError(f"there is no module {error.name!r} in {os.getcwd()} or on Python's path") from None
    except ValueError as error:
        raise SettingsError(f"{target!r} is not MODULE[:NAME] ({error})") from None
