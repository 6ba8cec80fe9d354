"""How the tasks of a service go to its function together: what was chosen, and what its function takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from famulus.core.clock import NS_PER_MS
from famulus.errors import SettingsError

SIZE_MAX: Final = 10_000
WAIT_MS: Final = 5.0
WAIT_MS_MAX: Final = 60_000.0


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """As the author of a worker writes them: `batch=64, wait_ms=5`."""

    size: int
    wait_ms: float

    @classmethod
    def of(cls, name: str, batch: int | None, wait_ms: float | None) -> BatchTerms | None:
        """None if the service has no batches."""
        if batch is None:
            if wait_ms is not None:
                raise SettingsError(f"service {name!r}: wait_ms is how long a batch waits for tasks, and needs a batch")
            return None
        if type(batch) is not int or not 1 <= batch <= SIZE_MAX:
            raise SettingsError(f"service {name!r}: batch: a number of tasks from 1 to {SIZE_MAX}, not {batch!r}")
        if wait_ms is not None and not 0 <= wait_ms <= WAIT_MS_MAX:
            raise SettingsError(f"service {name!r}: wait_ms: from 0 to {WAIT_MS_MAX:.0f}, not {wait_ms!r}")
        return cls(batch, WAIT_MS if wait_ms is None else wait_ms)


@dataclass(frozen=True, slots=True)
class Batching:
    #: The most tasks of a batch.
    size: int
    #: How long its first task waits for others.
    wait_ns: int
    #: The function takes `(items, tasks)`, and not only `(items)`.
    wants_tasks: bool
    #: From a body and its header to an item and the content type of its answer. Raises BadArguments.
    read: Callable[[bytes, bytes], tuple[Any, str]]
    #: From a result and that content type to what `calls.to_bytes` takes.
    write: Callable[[Any, str], object]
    #: Each call has a span of OpenTelemetry.
    is_traced: bool = False


def wait_ns(terms: BatchTerms) -> int:
    return int(terms.wait_ms * NS_PER_MS)
