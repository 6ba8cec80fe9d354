"""What a typed call is on the wire, and what its answer is as a value. Sends nothing itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Mapping
from contextlib import aclosing, closing
from datetime import datetime
from typing import Any, Final, Literal, TypedDict

from famulus.client.parts import OnProgress
from famulus.core.session.retry import Retry
from famulus.errors import BadAnswer, OutcomeError
from famulus.typed.codecs import JSON, BadValue, Reader, encode
from famulus.typed.service import Service

_ANYTHING: Final = Reader(Any)


class CallOptions(TypedDict, total=False):
    """What `call` and `submit` take besides the arguments of the function; the same as `request`."""

    timeout: float | None
    priority: int
    message_id: str | None
    at_least_once: bool
    idempotent: bool
    hedge_after_s: float | None
    hedge: Literal["p95"] | None
    retry: Retry | None
    headers: Mapping[str, str] | None
    key: str
    delay_s: float | None
    at: datetime | float | None


class StreamOptions(TypedDict, total=False):
    """What `stream` takes besides the argument of the function."""

    credit: int
    on_progress: OnProgress | None
    timeout: float | None
    priority: int
    message_id: str | None
    retry: Retry | None
    headers: Mapping[str, str] | None
    key: str
    delay_s: float | None
    at: datetime | float | None


class TypedCall:
    def __init__(self, service: Service[Any, Any] | str, values: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Either a service with types and its one argument, if it takes one, or a name and arguments by their names."""
        if len(values) > 1:
            raise TypeError(f"one argument besides the service, not {len(values)}; give the others by name")
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
            if values and not isinstance(values[0], Mapping):
                raise TypeError(
                    f"the arguments of {service!r} go by their names, or in a dictionary, not {values[0]!r}"
                )
            value = {**values[0], **named} if values else named
        self.body = encode(value, self.content_type)

    def result(self, body: bytes) -> Any:
        return _read(self._result, self.service, body, self.content_type)


class TypedMap:
    """Many calls of a service with types: their arguments as bodies, and their answers as values."""

    def __init__(self, service: Service[Any, Any]) -> None:
        self.service = service.name
        self.content_type = service.content_type
        self._result = service.result

    def bodies(self, arguments: Iterable[Any]) -> Iterator[bytes]:
        return (encode(each, self.content_type) for each in arguments)

    def results(self, answers: Generator[bytes | OutcomeError, None, None], errors: str) -> Iterator[Any]:
        with closing(answers):
            for answer in answers:
                yield self._result_of(answer, errors)

    async def results_awaited(
        self, answers: AsyncGenerator[bytes | OutcomeError, None], errors: str
    ) -> AsyncIterator[Any]:
        async with aclosing(answers):
            async for answer in answers:
                yield self._result_of(answer, errors)

    def _result_of(self, answer: bytes | OutcomeError, errors: str) -> Any:
        if isinstance(answer, OutcomeError):
            return answer
        try:
            return _read(self._result, self.service, answer, self.content_type)
        except BadAnswer as error:
            if errors == "return":
                return error
            raise


def _read(reader: Reader, service: str, body: bytes, content_type: str) -> Any:
    try:
        return reader.read(body, content_type)
    except BadValue as error:
        raise BadAnswer(f"{service} ran, and its answer is not what was expected: {error}") from None
