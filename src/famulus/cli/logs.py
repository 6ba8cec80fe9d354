"""Logs for people: to standard error, one line each; coloured on a terminal only. Or as JSON, for programs.

What the function of a worker logs says for which task.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

from famulus.errors import SettingsError

#: What every record has, or formatters add; the rest is what somebody gave as `extra`.
_OF_EVERY_RECORD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "whose"}

LEVELS = ("debug", "info", "warning", "error")
_COLOURS = {logging.WARNING: "\033[33m", logging.ERROR: "\033[31m"}


#: Service and message_id of the task that is being worked on where it is asked, if any.
_Where = Callable[[], tuple[str, str] | None]


class _Lines(logging.Formatter):
    def __init__(self, colours: bool, where: _Where) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)-7s %(whose)s: %(message)s", "%H:%M:%S")
        self._colours = colours
        self._where = where

    def format(self, record: logging.LogRecord) -> str:
        # What Famulus itself says about a task names it.
        task = None if record.name.startswith("famulus.") else self._where()
        record.whose = record.name if task is None else f"{record.name} [{task[0]} {task[1]}]"
        line = super().format(record)
        colour = _COLOURS.get(record.levelno, "") if self._colours else ""
        return f"{colour}{line}\033[0m" if colour else line


class _Json(logging.Formatter):
    def __init__(self, where: _Where) -> None:
        super().__init__()
        self._where = where

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        task = self._where()
        if task is not None:
            facts["service"], facts["message_id"] = task
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        for name, value in vars(record).items():
            if name not in _OF_EVERY_RECORD:
                # Nobody's `extra` may say that it is about another task.
                facts.setdefault(str(name), value)
        return json.dumps(facts, ensure_ascii=False, default=str)


def set_up_logs(level: str) -> None:
    """The logs of Famulus itself."""
    log = logging.getLogger("famulus")
    log.handlers[:] = [_to_stderr(level, _Lines(sys.stderr.isatty(), _nowhere))]
    log.setLevel(level.upper())


class ModuleLogs:
    """The logs of a module that somebody runs, and of Famulus in the same process.

    Those that the module sets up itself, for the console or a file, stay as it wants them: nothing is logged twice.

    `where`: which task is being worked on.
    """

    def __init__(self, level: str, where: _Where, *, as_json: bool = False) -> None:
        formatter = _Json(where) if as_json else _Lines(sys.stderr.isatty(), where)
        self._handler = _to_stderr(level, formatter)
        self._handler.addFilter(_nobody_else_writes)
        self._level = level.upper()

    @contextmanager
    def while_imported(self) -> Iterator[None]:
        """While the module is imported, this is what Python falls back on: `logging.basicConfig` does nothing if there
        is a handler already."""
        logging.getLogger().setLevel(self._level)
        logging.getLogger("famulus").setLevel(self._level)
        former, logging.lastResort = logging.lastResort, self._handler
        try:
            yield
        finally:
            logging.lastResort = former

    @contextmanager
    def while_it_runs(self) -> Iterator[None]:
        """Beside handlers of other kinds, such as those that send logs over the network."""
        logging.getLogger().addHandler(self._handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(self._handler)


def _nobody_else_writes(record: logging.LogRecord) -> bool:
    """Whether neither this record's logger nor one above it has a handler, besides ours, that writes to a stream."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None:
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler) and _nobody_else_writes not in handler.filters:
                return False
        logger = logger.parent if logger.propagate else None
    return True


def _nowhere() -> None:
    return None


def _to_stderr(level: str, formatter: logging.Formatter) -> logging.StreamHandler[TextIO]:
    if level.lower() not in LEVELS:
        raise SettingsError(f"log-level: {level!r} is not one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    return handler
