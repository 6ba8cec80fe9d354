"""`famulus bench viewers`: what those who look at the dashboard cost whoever carries the tasks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass

from famulus.lab.bench import fleet
from famulus.lab.bench.figures import median_of
from famulus.lab.bench.peers.recruit import free_port
from famulus.lab.bench.weighed import weighed

Figures = dict[str, float]
ASK = b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Load:
    viewers: int = 100
    window: int = 1000
    size: int = 100
    seconds: float = 3.0


def compare(load: Load, rounds: int, progress: Callable[[str, Figures], None]) -> dict[str, object]:
    """With nobody and with all of them, round by round in turn, so that whatever else happens here hits both alike."""
    seen: dict[str, list[Figures]] = {"nobody": [], "viewers": []}
    for number in range(rounds):
        for side in seen if number % 2 == 0 else reversed(seen):
            figures = one_round(load, load.viewers if side == "viewers" else 0)
            seen[side].append(figures)
            progress(side, figures)
    medians = {side: median_of(each) for side, each in seen.items()}
    cost = {side: each["cpu_us_dispatcher"] for side, each in medians.items()}
    return {
        "medians": medians,
        "dispatcher_ratio": cost["viewers"] / cost["nobody"],
        "ratio": medians["viewers"]["rate"] / medians["nobody"]["rate"],
        "rounds": seen,
    }


def one_round(load: Load, viewers: int) -> Figures:
    port = free_port()
    with fleet.crew() as members:
        frontend, backend = fleet.broker(members, "--http", "--http-port", str(port))
        command = fleet.python("famulus.lab.bench.echo_worker", backend, str(max(64, 2 * load.window)))
        members.append(fleet.Member("worker", command, "is ready"))
        # Also with nobody: a process more or less should not make the difference.
        watching = fleet.python("famulus.lab.bench.viewers", str(port), str(viewers))
        members.append(fleet.Member("viewers", watching, "all are there"))
        arguments = (str(load.window), str(load.size), str(load.seconds))
        client = fleet.python("famulus.lab.bench.load", "asyncio", frontend, *arguments)
        return weighed(members, client, load.seconds)


async def watch(port: int, count: int) -> None:
    """So many viewers, each with a connection of its own, who read whatever comes."""
    await _until_it_is_open(port)
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        for stream in streams:
            await _ask(*stream)
        print("all are there", flush=True)
        await asyncio.gather(*(_read(reader) for reader, _ in streams))
        if not streams:
            await asyncio.Event().wait()
    finally:
        for _, writer in streams:
            writer.close()


async def _until_it_is_open(port: int) -> None:
    until = asyncio.get_running_loop().time() + fleet.START_S
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            if asyncio.get_running_loop().time() > until:
                raise
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(ASK)
    status = await reader.readline()
    if b" 200 " not in status:
        sys.exit(f"a viewer was answered {status.decode(errors='replace').strip()}")


async def _read(reader: asyncio.StreamReader) -> None:
    while await reader.read(READ_BYTES):
        pass


if __name__ == "__main__":
    asyncio.run(watch(int(sys.argv[1]), int(sys.argv[2])))
