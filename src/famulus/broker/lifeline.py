"""How a supervisor and its processes talk: JSON lines over the child's standard input and output.

The settings come down first, then commands; end of file means that the supervisor is gone, and then the child must exit
too, whatever killed the supervisor. Reports go up: ready, failed, alive.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from famulus.broker.private_folder import remove_dead
from famulus.broker.settings import Settings
from famulus.errors import SettingsError

#: The same as the supervisor's own.
LINES = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"
TIMES = "%H:%M:%S"
REPORT_BYTES_MAX = 4096  # what a pipe takes atomically


class Lifeline:
    """The child's end."""

    def __init__(self) -> None:
        self.fd = sys.stdin.fileno()
        self._buffer = b""
        # A supervisor that does not read (it may be stopped) must not block us.
        os.set_blocking(sys.stdout.fileno(), False)

    def settings(self) -> dict[str, Any]:
        """Wait for the first line."""
        while b"\n" not in self._buffer:
            piece = os.read(self.fd, 65536)
            if not piece:
                raise SystemExit(0)
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        os.set_blocking(self.fd, False)
        settings: dict[str, Any] = msgspec.json.decode(line)
        return settings

    def commands(self) -> list[dict[str, Any]] | None:
        """What arrived since the last call; None if the supervisor is gone."""
        while True:
            try:
                piece = os.read(self.fd, 65536)
            except BlockingIOError:
                break
            if not piece and b"\n" not in self._buffer:
                return None
            if not piece:
                break  # its last words first; the next call tells that it is gone
            self._buffer += piece
        *lines, self._buffer = self._buffer.split(b"\n")
        return [msgspec.json.decode(line) for line in lines]

    def is_cut(self) -> bool:
        """Whether the supervisor is gone, whatever it said before. For a process that is about to end."""
        while (commands := self.commands()) is not None:
            if not commands:
                return False
        return True

    def report(self, **facts: object) -> None:
        line = msgspec.json.encode(facts) + b"\n"
        assert len(line) <= REPORT_BYTES_MAX
        try:
            os.write(sys.stdout.fileno(), line)
        except BlockingIOError:
            pass
        except BrokenPipeError:
            raise SystemExit(0) from None


def serve(start: Callable[[Settings, dict[str, Any], Lifeline], None]) -> None:
    """Run a process of a broker: settings in, work, and one clear sentence if it cannot start."""
    lifeline = Lifeline()
    try:
        facts = lifeline.settings()
        logging.basicConfig(level=facts["log_level"], stream=sys.stderr, format=LINES, datefmt=TIMES)
        start(msgspec.convert(facts["settings"], Settings), facts, lifeline)
    except SettingsError as error:
        lifeline.report(failed=str(error)[:1000])
        sys.exit(SettingsError.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        # Without its supervisor a broker falls apart, so an error then means nothing.
        if lifeline.is_cut():
            sys.exit(0)
        raise
    finally:
        # If our supervisor was killed, removing its folder is left to us.
        remove_dead()
