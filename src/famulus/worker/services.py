"""The services of a worker: which function stands for which name. Runs none of them."""

from __future__ import annotations

from collections.abc import Iterator

from famulus.errors import SettingsError
from famulus.wire import limits
from famulus.worker.service import Function, Service


class Services:
    def __init__(self) -> None:
        self._by_name: dict[str, Service] = {}

    def add(self, name: str, function: Function) -> None:
        _check_name(name)
        if name in self._by_name:
            raise SettingsError(f"service {name!r}: it has a function already")
        if not callable(function):
            raise SettingsError(f"service {name!r}: {function!r} is not a function")
        if len(self._by_name) >= limits.SERVICES_PER_WORKER_MAX:
            raise SettingsError(f"service {name!r}: a worker has at most {limits.SERVICES_PER_WORKER_MAX} services")
        self._by_name[name] = Service(name, function)

    def get(self, name: str) -> Service | None:
        return self._by_name.get(name)

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def __iter__(self) -> Iterator[Service]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise SettingsError(f"service {name!r}: a name is a text; write @worker.service('name')")
    if not 1 <= len(name) <= limits.NAME_CHARS_MAX or any(ord(char) < 32 or ord(char) == 127 for char in name):
        raise SettingsError(
            f"service {name!r}: a name has 1 to {limits.NAME_CHARS_MAX} characters, none of them control characters"
        )
