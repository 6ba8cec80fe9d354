"""The native module; `famulus.net.native` exports it. Its classes are like those of the Python twins."""

from typing import Any

from famulus.net.connections_python import Connections as Connections
from famulus.net.stream_python import Stream as Stream

FRAMES_MAX: int

def use_sodium(box: int, opened: int, /) -> None: ...
def wait(epoll: int, until_ns: int, longest_ms: int, sources: dict[int, Any], alone: bool, /) -> list[Any]: ...
