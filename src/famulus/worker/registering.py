"""What `@worker.serves` is for a type checker: a decorator that only takes functions of the service's types."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Protocol, TypeVar, overload

from famulus.worker.task import Task

_Takes = TypeVar("_Takes")
_Gives = TypeVar("_Gives")


class Registering(Protocol[_Takes, _Gives]):
    """Returns the function as it is. One without parameters is for a service that takes nothing.

    One that yields gives a stream, of which each part is what the service gives.
    """

    @overload
    def __call__(self, function: Callable[[_Takes], Awaitable[_Gives]], /) -> Callable[[_Takes], Awaitable[_Gives]]: ...

    @overload
    def __call__(
        self, function: Callable[[_Takes, Task], Awaitable[_Gives]], /
    ) -> Callable[[_Takes, Task], Awaitable[_Gives]]: ...

    @overload
    def __call__(self, function: Callable[[], Awaitable[_Gives]], /) -> Callable[[], Awaitable[_Gives]]: ...

    @overload
    def __call__(self, function: Callable[[_Takes], Iterator[_Gives]], /) -> Callable[[_Takes], Iterator[_Gives]]: ...

    @overload
    def __call__(
        self, function: Callable[[_Takes, Task], Iterator[_Gives]], /
    ) -> Callable[[_Takes, Task], Iterator[_Gives]]: ...

    @overload
    def __call__(self, function: Callable[[], Iterator[_Gives]], /) -> Callable[[], Iterator[_Gives]]: ...

    @overload
    def __call__(
        self, function: Callable[[_Takes], AsyncIterator[_Gives]], /
    ) -> Callable[[_Takes], AsyncIterator[_Gives]]: ...

    @overload
    def __call__(
        self, function: Callable[[_Takes, Task], AsyncIterator[_Gives]], /
    ) -> Callable[[_Takes, Task], AsyncIterator[_Gives]]: ...

    @overload
    def __call__(self, function: Callable[[], AsyncIterator[_Gives]], /) -> Callable[[], AsyncIterator[_Gives]]: ...

    @overload
    def __call__(self, function: Callable[[_Takes], _Gives], /) -> Callable[[_Takes], _Gives]: ...

    @overload
    def __call__(self, function: Callable[[_Takes, Task], _Gives], /) -> Callable[[_Takes, Task], _Gives]: ...

    @overload
    def __call__(self, function: Callable[[], _Gives], /) -> Callable[[], _Gives]: ...


class RegisteringBatches(Protocol[_Takes, _Gives]):
    """The same for functions of batches. In the place of a result there may be an exception."""

    @overload
    def __call__(
        self, function: Callable[[list[_Takes]], Awaitable[Sequence[_Gives | Exception]]], /
    ) -> Callable[[list[_Takes]], Awaitable[Sequence[_Gives | Exception]]]: ...

    @overload
    def __call__(
        self, function: Callable[[list[_Takes], list[Task]], Awaitable[Sequence[_Gives | Exception]]], /
    ) -> Callable[[list[_Takes], list[Task]], Awaitable[Sequence[_Gives | Exception]]]: ...

    @overload
    def __call__(
        self, function: Callable[[list[_Takes]], Sequence[_Gives | Exception]], /
    ) -> Callable[[list[_Takes]], Sequence[_Gives | Exception]]: ...

    @overload
    def __call__(
        self, function: Callable[[list[_Takes], list[Task]], Sequence[_Gives | Exception]], /
    ) -> Callable[[list[_Takes], list[Task]], Sequence[_Gives | Exception]]: ...
