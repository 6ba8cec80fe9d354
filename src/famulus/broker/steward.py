"""The steward's process."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from famulus.broker.lifeline import Lifeline, serve
from famulus.broker.settings import Settings
from famulus.broker.stewarding import Stewarding


def _start(settings: Settings, facts: dict[str, Any], lifeline: Lifeline) -> None:
    with closing(Stewarding(settings, facts["ipc"], lifeline)) as loop:
        loop.run()


if __name__ == "__main__":
    serve(_start)
