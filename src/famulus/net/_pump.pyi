"""The native module; `famulus.net.native` exports it. Its classes are as those of the Python twins."""

from famulus.net.connections_python import Connections as Connections
from famulus.net.stream_python import Stream as Stream

FRAMES_MAX: int
