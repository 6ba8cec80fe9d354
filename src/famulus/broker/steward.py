"""The steward's process."""

from __future__ import annotations

import logging
import sys
from typing import Any

import msgspec

from famulus.broker.lifeline import Lifeline, serve
from famulus.broker.settings import Settings
from famulus.broker.stewarding import Stewarding

#: As the supervisor's own.
LINES = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"


def _start(facts: dict[str, Any], lifeline: Lifeline) -> None:
    logging.basicConfig(level=facts["log_level"], stream=sys.stderr, format=LINES, datefmt="%H:%M:%S")
    loop = Stewarding(msgspec.convert(facts["settings"], Settings), facts["ipc"], lifeline)
    try:
        loop.run()
    finally:
        loop.close()


if __name__ == "__main__":
    serve(_start)
