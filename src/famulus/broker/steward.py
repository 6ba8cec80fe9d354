"""The steward's process."""

from __future__ import annotations

from typing import Any

import msgspec

from famulus.broker.lifeline import Lifeline, serve
from famulus.broker.settings import Settings
from famulus.broker.stewarding import Stewarding


def _start(facts: dict[str, Any], lifeline: Lifeline) -> None:
    loop = Stewarding(msgspec.convert(facts["settings"], Settings), facts["ipc"], lifeline)
    try:
        loop.run()
    finally:
        loop.close()


if __name__ == "__main__":
    serve(_start)
