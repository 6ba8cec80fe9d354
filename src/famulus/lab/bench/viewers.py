"""`famulus bench viewers`: what those who look at the dashboard cost whoever carries the tasks.

python -m famulus.lab.bench.viewers PORT COUNT
"""

from __future__ import annotations

import asyncio
import sys

from famulus.lab.bench.echo import Load, weighed, with_worker
from famulus.lab.bench.figures import Figures, Progress, in_turn, median_of
from famulus.lab.bench.fleet import START_S, Crew
from famulus.lab.processes import free_port, python

ASK = b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
READ_BYTES = 1 << 16


def compare(load: Load, viewers: int, rounds: int, progress: Progress) -> dict[str, object]:
    """With nobody and with all of them."""
    counts = {"nobody": 0, "viewers": viewers}
    seen = in_turn(list(counts), rounds, lambda side: one_round(load, counts[side]), progress)
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
    with Crew() as crew:
        frontend = with_worker(crew, load, "--http", "--http-port", str(port))
        # Also with nobody: a process more or less should not make the difference.
        watching = python("famulus.lab.bench.viewers", str(port), str(viewers))
        crew.start("viewers", watching).wait_until("all are there")
        return weighed(crew, load, frontend)


async def watch(port: int, count: int) -> None:
    """This many viewers, each with a connection of its own, who read whatever comes."""
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
    async with asyncio.timeout(START_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
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
