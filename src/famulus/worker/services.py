"""The services of a worker: which function belongs to which name. Does not run them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from famulus import tracing
from famulus.core.batch_queue import slots_for
from famulus.errors import SettingsError
from famulus.typed.service import Service as TypedService
from famulus.wire import limits
from famulus.worker.batch_function import by_annotation, by_service
from famulus.worker.batching import BatchTerms
from famulus.worker.parameters import Parameters
from famulus.worker.service import Function, Service, is_stream
from famulus.worker.time_limit import NOT_CHOSEN
from famulus.worker.traced_function import in_span
from famulus.worker.typed_function import by_names, by_value


class Services(dict[str, Service]):
    """By name."""

    def add(
        self, name: str, function: Function, batches: BatchTerms | None = None, time_limit_ns: int = NOT_CHOSEN
    ) -> None:
        self._check(name, function)
        batching, is_typed = None, False
        if batches is not None:
            _check_no_stream(name, function)
            batching = by_annotation(name, function, batches)
        elif (parameters := Parameters(function)).are_typed:
            function, is_typed = by_names(name, function, parameters), True
        self[name] = Service(name, function, is_typed, batching, time_limit_ns)

    def add_typed(
        self,
        service: TypedService[Any, Any],
        function: Function,
        batches: BatchTerms | None = None,
        time_limit_ns: int = NOT_CHOSEN,
    ) -> None:
        if not isinstance(service, TypedService):
            raise SettingsError(f"{service!r} is not a famulus.Service; for a name, write @worker.service('name')")
        name = service.name
        self._check(name, function)
        if batches is not None:
            _check_no_stream(name, function)
            batching = by_service(service, function, batches)
            self[name] = Service(name, function, batching=batching, time_limit_ns=time_limit_ns)
        else:
            self[name] = Service(name, by_value(service, function), is_typed=True, time_limit_ns=time_limit_ns)

    def slots_for_batches(self, processes: int) -> int:
        """How many slots it takes that a batch of each service (or one for each process) runs while the next fills.

        0 without batches.
        """
        sizes = [service.batching.size for service in self.values() if service.batching is not None]
        return min(sum(slots_for(size, max(1, processes)) for size in sizes), limits.SLOTS_MAX)

    def check_slots(self, slots: int | None) -> None:
        for service in self.values():
            if slots is not None and service.batching is not None and slots < service.batching.size:
                raise SettingsError(
                    f"slots: {slots} are too few for service {service.name!r}, whose batches have "
                    f"{service.batching.size} tasks; twice as many as a batch has work well, and are the default"
                )

    def to_run(self, time_limit_ns: int) -> Services:
        """The same with the worker's time limit, where they have none of their own.

        And with a span around each call, if this program has set up a tracer.
        """
        ready = Services()
        for name, service in self.items():
            function, is_typed, batching = service.function, service.is_typed, service.batching
            if tracing.is_on() and batching is not None:
                batching = replace(batching, is_traced=True)
            elif tracing.is_on():
                function, is_typed = in_span(service), True
            ready[name] = Service(name, function, is_typed, batching, service.time_limit_ns or time_limit_ns)
        return ready

    def _check(self, name: str, function: Function) -> None:
        _check_name(name)
        if name in self:
            raise SettingsError(f"service {name!r}: it has a function already")
        if not callable(function):
            raise SettingsError(f"service {name!r}: {function!r} is not a function")
        if len(self) >= limits.SERVICES_PER_WORKER_MAX:
            raise SettingsError(f"service {name!r}: a worker has at most {limits.SERVICES_PER_WORKER_MAX} services")


def _check_no_stream(name: str, function: Function) -> None:
    if is_stream(function):
        raise SettingsError(f"service {name!r}: its function yields, which gives a stream, and a batch has no streams")


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise SettingsError(f"service {name!r}: a name is a text; write @worker.service('name')")
    if not 1 <= len(name) <= limits.NAME_CHARS_MAX or any(ord(char) < 32 or ord(char) == 127 for char in name):
        raise SettingsError(
            f"service {name!r}: a name has 1 to {limits.NAME_CHARS_MAX} characters, none of them control characters"
        )
