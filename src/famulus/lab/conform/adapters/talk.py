"""Lines of JSON on standard input and output, as docs/conformance.md has them. Any thread may tell."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

_gate = threading.Lock()


def tell(**line: Any) -> None:
    with _gate:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def told() -> Iterator[dict[str, Any]]:
    """What the kit wants, until it goes away."""
    yield from map(json.loads, sys.stdin)
