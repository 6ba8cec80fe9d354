"""A client that asks without pause until it is told to stop, tries again after a failure, and writes down all of it.

python ledger_client.py FRONTENDS LEDGER SERVICE CALLERS NAME

Each of CALLERS threads has one task open at a time, every fourth one at-least-once; some tasks take a while. SIGTERM
lets the open ones end. FRONTENDS are separated by commas.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from famulus import Client
from famulus.errors import OutcomeError

PAUSE_S = 0.02


def main(frontends: str, ledger: str, service: str, callers: str, name: str) -> None:
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())

    def write(*words: object) -> None:
        os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())

    def ask_without_pause(client: Client, caller: int) -> None:
        number = 0
        while not stopping.is_set():
            again = number % 4 == 3
            # A broker answers a name that it remembers from memory, so no other client may have had it.
            task = f"{name}-{os.getpid()}-{caller}-{number}"
            body = b"sleep 0.1" if number % 5 == 0 else b"x"
            write("sent", task, "again" if again else "once", time.monotonic())
            try:
                client.request(service, body, message_id=task, timeout=5, at_least_once=again)
                write("ended", task, "OK", "-", time.monotonic())
            except OutcomeError as error:
                write("ended", task, error.outcome, error.code or "-", time.monotonic())
                time.sleep(PAUSE_S)
            number += 1
            time.sleep(PAUSE_S / 4)

    with Client(frontends.split(","), timeout=5) as client:
        threads = [threading.Thread(target=ask_without_pause, args=(client, each)) for each in range(int(callers))]
        for thread in threads:
            thread.start()
        print("asking", flush=True)
        for thread in threads:
            while thread.is_alive():
                thread.join(0.1)
    print("stopped", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
