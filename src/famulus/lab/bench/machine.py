"""The machine that a measurement ran on: without it no figure means anything."""

from __future__ import annotations

import os
import platform

from famulus.net import native


def facts() -> dict[str, str | int]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "pump": "native" if native.NATIVE else "python",
    }
