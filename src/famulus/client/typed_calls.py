"""What a typed call is on the wire, and what its answer is as a value. Sends nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from famulus.core.session.retry import Retry
from famulus.errors import BadAnswer
from famulus.typed.codecs import JSON, BadValue, Reader, encode
from famulus.typed.service import Service

_ANYTHING: Final = Reader(Any)


class CallOptions(TypedDict, total=False):
    """What `call` takes besides the arguments of the function; the same as `request`."""

    timeout: float | None
    priority: int
    message_id: str | None
    at_least_once: bool
    retry: Retry | None
    headers: Mapping[str, str] | None
    key: str


class TypedCall:
    def __init__(self, service: Service[Any, Any] | str, values: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Either a service with types and its one argument, if it takes one, or a name and arguments by their names."""
        if len(values) > 1:
            raise TypeError(f"call takes one argument besides the service, not {len(values)}; give the others by name")
        if isinstance(service, Service):
            if named:
                raise TypeError(f"{service!r} takes one value, and no arguments by name")
            self.service = service.name
            self.content_type = service.content_type
            self._result = service.result
            value = values[0] if values else None
        else:
            self.service = service
            self.content_type = JSON
            self._result = _ANYTHING
            value = {**values[0], **named} if values else named
        self.body = encode(value, self.content_type)

    def result(self, body: bytes) -> Any:
        try:
            return self._result.read(body, self.content_type)
        except BadValue as error:
            raise BadAnswer(f"{self.service} ran, and its answer is not what was expected: {error}") from None
