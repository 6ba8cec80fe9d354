"""Logs for people: to standard error, one line each; coloured on a terminal only."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from famulus.errors import SettingsError

LEVELS = ("debug", "info", "warning", "error")
_COLOURS = {logging.WARNING: "\033[33m", logging.ERROR: "\033[31m"}


class _Lines(logging.Formatter):
    def __init__(self, colours: bool) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        colour = _COLOURS.get(record.levelno, "") if self._colours else ""
        return f"{colour}{line}\033[0m" if colour else line


def set_up_logs(level: str) -> None:
    """The logs of Famulus itself."""
    log = logging.getLogger("famulus")
    log.handlers[:] = [_to_stderr(level)]
    log.setLevel(level.upper())


def set_up_all_logs(level: str) -> None:
    """The logs of Famulus and of everything else that runs in this process, such as a worker's own module.

    Set up as what Python falls back on if nobody has set up anything: so a module that calls `logging.basicConfig` gets
    what it asks for, and nothing is logged twice.
    """
    logging.lastResort = _to_stderr(level)
    logging.getLogger().setLevel(level.upper())
    logging.getLogger("famulus").setLevel(level.upper())


def _to_stderr(level: str) -> logging.StreamHandler[TextIO]:
    if level.lower() not in LEVELS:
        raise SettingsError(f"log-level: {level!r} is not one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(sys.stderr.isatty()))
    return handler
