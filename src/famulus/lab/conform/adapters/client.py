"""Our client as a command of the conformance kit: python -m famulus.lab.conform.adapters.client."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

from famulus import Client
from famulus.errors import OutcomeError
from famulus.lab.conform.adapters.talk import tell, told

OFFERS = ["cancel", "delay", "idempotent", "ids", "several", "streams"]


def main() -> None:
    tell(offers=OFFERS)
    lines = told()
    futures: dict[str, Future[bytes]] = {}
    with Client(next(lines)["address"]) as client:
        for line in lines:
            if line["do"] == "stop":
                break
            asked = line["id"]
            if line["do"] == "cancel":
                futures[asked].cancel()
            elif "credit" in line:
                threading.Thread(target=read_stream, args=(client, line), daemon=True).start()
            else:
                futures[asked] = future = client.submit(line["service"], bytes.fromhex(line["body"]), **options(line))
                future.add_done_callback(partial(tell_outcome, asked))


def options(line: dict[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {key: line[key] for key in ("message_id", "idempotent", "credit") if key in line}
    return {**chosen, "timeout": line["timeout_ms"] / 1000, "delay_s": line.get("delay_ms", 0) / 1000 or None}


def tell_outcome(asked: str, future: Future[bytes]) -> None:
    try:
        tell(id=asked, outcome="OK", body=future.result().hex())
    except OutcomeError as error:
        tell_error(asked, error)
    except CancelledError:
        pass  # whoever cancels a future does not hear how it ended


def tell_error(asked: str, error: OutcomeError) -> None:
    tell(id=asked, outcome=error.outcome, reason=error.reason, body=error.body.hex())


def read_stream(client: Client, line: dict[str, Any]) -> None:
    asked = line["id"]
    try:
        for part in client.stream(line["service"], bytes.fromhex(line["body"]), **stream_options(line)):
            tell(id=asked, part=part.hex())
    except OutcomeError as error:
        tell_error(asked, error)
    else:
        tell(id=asked, outcome="OK", body="")


def stream_options(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options(line).items() if key != "idempotent"}


if __name__ == "__main__":
    main()
