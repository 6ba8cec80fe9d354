"""The dispatcher's process. Separate from its loop, since a compiled module cannot be started with `python -m`."""

from __future__ import annotations

import gc
from typing import Any

from famulus.broker.dispatching import Dispatching
from famulus.broker.lifeline import Lifeline, serve
from famulus.broker.settings import Settings


def _start(settings: Settings, facts: dict[str, Any], lifeline: Lifeline) -> None:
    loop = Dispatching(settings, facts["ipc"], facts["boot"], lifeline)
    lifeline.report(ready=True, frontend_port=loop.frontend_port, backend_port=loop.backend_port)
    # What is here now stays for ever, and tasks are freed by reference counting: the collector has little to find.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    loop.run()


if __name__ == "__main__":
    serve(_start)
