"""`famulus worker --reload`: the same command in a child, which starts again when a file of its module changes.

In a child, so that nothing of the old module is left, and a module that cannot be imported does not end it all.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Final

#: How often the files are looked at.
LOOK_S: Final = 0.25
#: But in a large folder, where that takes a while, for no more than this share of the time.
SHARE: Final = 0.05
#: Folders that have no modules of their own, besides hidden ones.
PASSED_OVER: Final = frozenset({"__pycache__", "node_modules"})
#: What a virtual environment has in its folder, whatever that is called.
OF_ENVIRONMENTS: Final = "pyvenv.cfg"

log = logging.getLogger("famulus.worker")

Seen = dict[str, int]


def run_and_reload(module: str) -> int:
    """The exit code of the last child, when somebody has stopped us."""
    folder = folder_of(module)
    command = [sys.executable, "-m", "famulus", *(each for each in sys.argv[1:] if each != "--reload")]
    stops = _Stops()
    while True:
        seen = look(folder)
        child = stops.begin(command)
        _wait_for_a_change(folder, seen, child, stops)
        if not stops.wanted:
            log.info("a module in %s has changed: starting again", folder)
            stops.drain()
        code = child.wait()
        # Somebody may have stopped us while the old child drained: then there is no new one.
        if stops.wanted:
            # One that had hardly begun does not know yet what to do with the signal.
            return 0 if code == -signal.SIGTERM else code


def _wait_for_a_change(folder: Path, seen: Seen, child: subprocess.Popen[bytes], stops: _Stops) -> None:
    told = False
    while not stops.wanted:
        began = time.monotonic()
        if look(folder) != seen:
            return
        took = time.monotonic() - began
        if child.poll() is not None and not told:
            told = True
            log.warning("the worker ended (code %d); it starts again when its module changes", child.returncode)
        time.sleep(max(LOOK_S, took / SHARE))


class _Stops:
    """Whether somebody wants us to stop: the child is told, and a second time it stops at once."""

    def __init__(self) -> None:
        self.wanted = False
        self._child: subprocess.Popen[bytes] | None = None
        self._drains = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def begin(self, command: list[str]) -> subprocess.Popen[bytes]:
        self._drains = False
        self._child = child = subprocess.Popen(command)
        if self.wanted:
            # The signal came while there was no child to hear it.
            child.terminate()
        return child

    def drain(self) -> None:
        """The child is to end because its module has changed."""
        self._drains = True
        if self._child is not None:
            self._child.terminate()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # To a child that drains already, one more signal would mean to stop at once, which nobody has asked for yet.
        drains, self._drains = self._drains, False
        self.wanted = True
        # Ctrl-C reaches the child by itself.
        if number == signal.SIGTERM and self._child is not None and not drains:
            self._child.terminate()


def folder_of(module: str) -> Path:
    """Where its package is, or the module itself if it has none; or where it should be."""
    sys.path.insert(0, os.getcwd())
    try:
        # Without its last parts: to find those, the package would be imported.
        spec = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin:
        return Path(spec.origin).parent
    # A package without __init__.py.
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(folders[0]) if folders else Path.cwd()


def look(folder: Path) -> Seen:
    """When each module in this folder, and in those below, was last written."""
    return dict(_look(str(folder)))


def _look(folder: str) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(folder) as entries:
            listed = list(entries)
    except OSError:
        return  # it has just been removed, or is not ours
    for each in listed:
        try:
            if each.is_dir(follow_symlinks=False):
                if not _is_passed_over(each):
                    yield from _look(each.path)
            elif each.name.endswith(".py"):
                yield each.path, each.stat().st_mtime_ns
        except OSError:
            continue  # an editor is just replacing it


def _is_passed_over(folder: os.DirEntry[str]) -> bool:
    hidden = folder.name.startswith(".") or folder.name in PASSED_OVER
    return hidden or os.path.exists(os.path.join(folder.path, OF_ENVIRONMENTS))
