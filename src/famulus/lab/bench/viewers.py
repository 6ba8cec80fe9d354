"""`famulus bench viewers`: what viewers of the dashboard cost the processes that carry the tasks.

python -m famulus.lab.bench viewers PORT COUNT
"""

from __future__ import annotations

import asyncio
import sys

from famulus.lab.bench.echo import Load, weighed
from famulus.lab.bench.figures import Figures, Progress, in_turn
from famulus.lab.bench.fleet import Crew
from famulus.lab.processes import free_port

ASK = b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
READ_BYTES = 1 << 16


def compare(load: Load, viewers: int, rounds: int, progress: Progress) -> dict[str, object]:
    """Without viewers and with all of them."""
    counts = {"nobody": 0, "viewers": viewers}
    seen = in_turn(list(counts), rounds, lambda side: one_round(load, counts[side]), progress)
    without, with_all = seen["medians"].values()
    return {
        **seen,
        "dispatcher_ratio": with_all["cpu_us_dispatcher"] / without["cpu_us_dispatcher"],
        "ratio": with_all["rate"] / without["rate"],
    }


def one_round(load: Load, viewers: int) -> Figures:
    port = free_port()
    with Crew() as crew:
        broker = crew.echo_broker(load.window, "--http", "--http-port", str(port))
        broker.member.wait_for_port(port)
        # Even without viewers: one process more or less should not make the difference.
        crew.part("viewers", "viewers", port, viewers).wait_until("all are there")
        return weighed(crew, load, broker.frontend)


async def watch(port: int, count: int) -> None:
    """This many viewers, each with a connection of its own, who read whatever comes."""
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        for reader, writer in streams:
            writer.write(ASK)
            status = await reader.readline()
            if b" 200 " not in status:
                sys.exit(f"a viewer was answered {status.decode(errors='replace').strip()}")
        print("all are there", flush=True)
        await asyncio.gather(*(_read(reader) for reader, _ in streams))
        if not streams:
            await asyncio.Event().wait()
    finally:
        for _, writer in streams:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> None:
    while await reader.read(READ_BYTES):
        pass


def main(port: str, count: str) -> None:
    asyncio.run(watch(int(port), int(count)))
