"""The services of a worker: which function belongs to which name. Does not run them."""

from __future__ import annotations

from famulus.errors import SettingsError
from famulus.wire import limits
from famulus.worker.service import Function, Service


class Services(dict[str, Service]):
    """By name."""

    def add(self, name: str, function: Function) -> None:
        _check_name(name)
        if name in self:
            raise SettingsError(f"service {name!r}: it has a function already")
        if not callable(function):
            raise SettingsError(f"service {name!r}: {function!r} is not a function")
        if len(self) >= limits.SERVICES_PER_WORKER_MAX:
            raise SettingsError(f"service {name!r}: a worker has at most {limits.SERVICES_PER_WORKER_MAX} services")
        self[name] = Service(name, function)


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise SettingsError(f"service {name!r}: a name is a text; write @worker.service('name')")
    if not 1 <= len(name) <= limits.NAME_CHARS_MAX or any(ord(char) < 32 or ord(char) == 127 for char in name):
        raise SettingsError(
            f"service {name!r}: a name has 1 to {limits.NAME_CHARS_MAX} characters, none of them control characters"
        )
