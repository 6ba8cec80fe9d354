"""Logs for people: to standard error, one line each; coloured on a terminal only."""

from __future__ import annotations

import logging
import sys

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


def set_up_logs(level: str) -> logging.Logger:
    if level.lower() not in LEVELS:
        raise SettingsError(f"log-level: {level!r} is none of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(sys.stderr.isatty()))
    log = logging.getLogger("famulus")
    log.handlers[:] = [handler]
    log.setLevel(level.upper())
    return log
