"""Spark in the network: columns that services compute (`ask`, `asking`), and jobs as services (`serve`).

from famulus.spark import ask

answers = ask(df, "embed", body="text", key="id")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from famulus.spark.counts import AskCounts
    from famulus.spark.frames import ask
    from famulus.spark.serving import serve
    from famulus.spark.sink import FamulusSink
    from famulus.spark.udf import asking

__all__ = ["AskCounts", "FamulusSink", "ask", "asking", "serve"]

# Each is imported when it is first asked for: Spark takes a second to load.
_HOMES = {
    "AskCounts": "famulus.spark.counts",
    "FamulusSink": "famulus.spark.sink",
    "ask": "famulus.spark.frames",
    "asking": "famulus.spark.udf",
    "serve": "famulus.spark.serving",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'famulus.spark' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
