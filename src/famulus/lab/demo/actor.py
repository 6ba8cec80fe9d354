"""One process of the demo, with its children: started, listened to, stopped or killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic

from famulus.errors import DemoFailed

STOP_S = 10.0
#: What it said last, for whoever asks why it failed.
LINES_KEPT = 50


class Actor:
    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process
        self._said: deque[str] = deque(maxlen=LINES_KEPT)
        self._waiting: list[tuple[re.Pattern[str], asyncio.Future[float]]] = []
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> Actor:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "famulus", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            # A group of its own: Ctrl-C reaches only us, and a kill reaches all of it at once.
            start_new_session=True,
        )
        return cls(name, process)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    def line(self, pattern: str) -> asyncio.Future[float]:
        """When it says so, from now on: that instant, on the monotonic clock."""
        said: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((re.compile(pattern), said))
        return said

    async def ready(self, pattern: str, within_s: float) -> None:
        said = self.line(pattern)
        if any(re.search(pattern, line) for line in self._said):
            return
        try:
            await asyncio.wait_for(said, within_s)
        except (TimeoutError, EOFError):
            last = self._said[-1] if self._said else "it said nothing"
            raise DemoFailed(f"{self.name} did not start: {last}") from None

    def kill(self) -> None:
        """All of it at once, as if its machine were gone."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def stop(self) -> None:
        if self.alive:
            with suppress(ProcessLookupError):
                self._process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), STOP_S)
        self.kill()  # whoever is left of it
        await self._process.wait()
        await self._listening

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while raw := await self._process.stdout.readline():
            line = raw.decode(errors="replace").rstrip()
            self._said.append(line)
            for pattern, said in self._waiting:
                if not said.done() and pattern.search(line):
                    said.set_result(monotonic())
            self._waiting = [each for each in self._waiting if not each[1].done()]
        for _, said in self._waiting:
            if not said.done():
                said.set_exception(EOFError(f"{self.name} has ended"))
                said.exception()  # nobody may be waiting any more


async def run(*arguments: str, env: Mapping[str, str] | None = None, within_s: float = 60.0) -> str:
    """A command to its end: what it printed; DemoFailed with its words if it failed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "famulus", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(env or {})},
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), within_s)
    except BaseException as error:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            raise DemoFailed(f"famulus {' '.join(arguments[:2])} did not end within {within_s:.0f} s") from None
        raise
    if process.returncode:
        words = (err or out).decode(errors="replace").strip().splitlines()
        raise DemoFailed(f"famulus {' '.join(arguments[:2])} failed: {words[-1] if words else process.returncode}")
    return out.decode()
