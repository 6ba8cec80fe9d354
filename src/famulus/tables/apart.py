"""Reads findings in a process of its own with bounded memory: what a Parquet file says about its size may be a lie.

A page of some kilobytes can unpack to gigabytes, and its size is given only in the page itself, which nobody but the
reader sees. So the reader is a child that may run out of memory without harm to its caller.

python -m famulus.tables.apart ROWS_MAX reads the file that is its standard input.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import BinaryIO, Final

import msgspec

from famulus.errors import NotFindings
from famulus.tables.finding import Findings

#: On top of what the child needs to load its libraries.
MEMORY_BYTES_MAX: Final = 256 * 1024 * 1024
#: A file that takes longer was made to do so; starting Python and Arrow takes a second or two on a busy machine.
SECONDS_MAX: Final = 20.0
#: Of processor time, in case nobody is there to wait.
CPU_SECONDS_MAX: Final = 10
_TOO_MUCH: Final = "it takes too much memory or time to be read"


class _Answer(msgspec.Struct):
    """What the child prints."""

    findings: Findings | None = None
    problem: str = ""


def read(file: BinaryIO, rows_max: int) -> Findings:
    """The first `rows_max` findings of an open file; raises NotFindings, whatever is wrong with it."""
    command = [sys.executable, "-m", "famulus.tables.apart", str(rows_max)]
    # Arrow's own allocators reserve address space in advance, which the bound counts.
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    file.seek(0)
    try:
        done = subprocess.run(
            command,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=SECONDS_MAX,
            check=False,
        )
        answer = msgspec.json.decode(done.stdout, type=_Answer)
    except (subprocess.TimeoutExpired, msgspec.MsgspecError):
        raise NotFindings(_TOO_MUCH) from None
    if answer.findings is None:
        raise NotFindings(answer.problem or _TOO_MUCH)
    return answer.findings


def _bound_memory() -> None:
    import resource

    with open("/proc/self/statm") as sizes:
        used = int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES_MAX,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS_MAX,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _main(rows_max: str) -> None:
    from famulus.tables import reading

    _bound_memory()
    try:
        answer = _Answer(findings=reading.read(sys.stdin.buffer, int(rows_max)))
    except NotFindings as error:
        answer = _Answer(problem=str(error))
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    _main(*sys.argv[1:])
