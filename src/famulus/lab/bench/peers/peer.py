"""What a broker must offer to be measured, and whether it is there."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from famulus.lab.bench.peers.recruit import Crew

#: Debian puts servers where a user's PATH does not look.
SERVERS_PATH = "/usr/local/sbin:/usr/sbin"


@dataclass(frozen=True, slots=True)
class Needs:
    #: Program and the Debian package that has it.
    programs: Mapping[str, str] = field(default_factory=dict)
    #: Module and the name under which pip knows it.
    libraries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    #: Starts a server and a worker that can hold so many tasks at once; gives the address for clients.
    start: Callable[[Crew, int], str]
    #: Run as `python -m MODULE client ORDER`.
    module: str
    needs: Needs = Needs()


def find_program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{SERVERS_PATH}")


def program(name: str) -> str:
    path = find_program(name)
    assert path is not None, f"{name} was there a moment ago"
    return path


def has_library(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def absence(
    needs: Needs,
    has_program: Callable[[str], object] = find_program,
    has_library: Callable[[str], bool] = has_library,
) -> str | None:
    """Why it cannot be measured and what would help, or None."""
    programs = [each for each in needs.programs if not has_program(each)]
    libraries = [each for each in needs.libraries if not has_library(each)]
    if not programs and not libraries:
        return None
    missing = [f"no program {each} (Debian package {needs.programs[each]})" for each in programs]
    missing += [f"no library {each} (pip install {needs.libraries[each]})" for each in libraries]
    return ", ".join(missing)
