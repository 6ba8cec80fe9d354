"""A service that both sides know by its types: imported by the worker that has its function and by its clients."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

from famulus.errors import SettingsError
from famulus.typed.codecs import CodecName, Reader, content_type_of

Takes = TypeVar("Takes")
Gives = TypeVar("Gives")
# A service that gives an int gives an int or a text, too.
_Given = TypeVar("_Given", covariant=True)


class Service(Generic[Takes, _Given]):
    """What a service takes and what it gives.

        class Size(msgspec.Struct):
            width: int
            height: int = 0

        resize = Service("resize", takes=Size, gives=str)

    A worker serves it with `@worker.serves(resize)`, a client calls it with `client.call(resize, Size(width=64))`.

    name    of the service
    takes   type of its one argument: a msgspec.Struct, a dataclass, a plain type; without it, it takes nothing
    gives   type of its result; without it, it gives None
    codec   "json", which any language reads; "msgpack", which is smaller; or "bytes", for bytes as they are
    """

    @overload
    def __init__(self, name: str, *, takes: type[Takes], gives: type[_Given], codec: CodecName = ...) -> None: ...

    @overload
    def __init__(self: Service[None, _Given], name: str, *, gives: type[_Given], codec: CodecName = ...) -> None: ...

    @overload
    def __init__(self: Service[Takes, None], name: str, *, takes: type[Takes], codec: CodecName = ...) -> None: ...

    def __init__(self, name: str, *, takes: Any = None, gives: Any = None, codec: CodecName = "json") -> None:
        self.name = name
        self.takes = takes
        self.gives = gives
        self.content_type = content_type_of(codec)
        if not self.content_type and (takes, gives) != (bytes, bytes):
            raise SettingsError(f"service {name!r}: with the codec bytes it takes and gives bytes")
        try:
            self.argument = Reader(takes)
            self.result = Reader(gives)
        except SettingsError as error:
            raise SettingsError(f"service {name!r}: {error}") from None

    def __repr__(self) -> str:
        return f"Service({self.name!r}, takes={_name(self.takes)}, gives={_name(self.gives)})"


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
