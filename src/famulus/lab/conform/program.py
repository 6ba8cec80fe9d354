"""The command that is tried. It is told and tells one JSON object per line: docs/conformance.md says which ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from famulus.errors import LabFailed
from famulus.lab.conform.rule import Broken

#: A longer line says nothing that we asked for.
LINE_BYTES_MAX = 64 * 1024 * 1024
#: How much of what it wrote to standard error is shown.
SHOWN_BYTES = 600


class Program:
    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the program
        try:
            # A session of its own, so that what it starts ends with it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise LabFailed(f"{command[0]!r} cannot be started ({error})") from None
        assert self._process.stdout is not None
        self.fd = self._process.stdout.fileno()
        os.set_blocking(self.fd, False)
        self._rest = b""
        self.has_ended = False

    def tell(self, **line: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Broken(self.obituary()) from None

    def read(self) -> list[dict[str, Any]]:
        """What it has told since the last call."""
        try:
            chunk = os.read(self.fd, LINE_BYTES_MAX)
        except BlockingIOError:
            return []
        if not chunk:
            self.has_ended = True
            return []
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [_object_in(line) for line in lines if line.strip()]

    def wait(self, within_s: float) -> int:
        """Its exit code."""
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise Broken(f"it had not ended {within_s:g} s after it was told to stop") from None

    def obituary(self) -> str:
        """Why nothing comes any more, as far as it said so itself."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "the program closed its standard output"
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"the program ended with {how}{self._last_words()}"

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - SHOWN_BYTES))
        said = " ".join(self._errors.read().decode("utf-8", "replace").split())
        return f": {said}" if said else ""

    def close(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # it had not read the last line
                pipe.close()
        self._errors.close()


def _object_in(line: bytes) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise Broken(f"the program wrote a line that is no JSON object: {line[:200]!r}")
    return told


def offers_of(command: Sequence[str], within_s: float) -> frozenset[str]:
    """The first line of every program says what it can do beside what all have to."""
    program = Program(command)
    try:
        until = time.monotonic() + within_s
        while not (lines := program.read()):
            if program.has_ended:
                raise LabFailed(program.obituary())
            if time.monotonic() > until:
                raise LabFailed(f"the program did not say within {within_s:g} s what it offers")
            time.sleep(0.005)
    except Broken as broken:
        raise LabFailed(str(broken)) from None
    finally:
        program.close()
    offers = lines[0].get("offers")
    if not isinstance(offers, list) or not all(isinstance(each, str) for each in offers):
        raise LabFailed(f'the first line of the program is {{"offers": [...]}}, not {json.dumps(lines[0])[:200]}')
    return frozenset(offers)
