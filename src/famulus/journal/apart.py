"""Asks a journal in a process of its own, for those who must neither wait nor grow: a search may take long, and Arrow
takes memory that it does not give back.

python -m famulus.journal.apart FOLDER reads the question from its standard input, and prints the answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from famulus.errors import NoAnswer
from famulus.journal.questions import JournalAnswer, Question

#: On top of what the child needs to load its libraries.
MEMORY_BYTES_MAX: Final = 1024 * 1024 * 1024
#: A person waits for it; whoever has more time uses the command.
SECONDS_MAX: Final = 20.0
#: Of processor time, in case nobody is there to wait.
CPU_SECONDS_MAX: Final = 15
#: Whoever carries tasks comes first.
NICENESS: Final = 10
_TOO_MUCH: Final = "the journal is too large to be searched from here"


def ask(folder: Path, question: Question) -> JournalAnswer:
    """Raises NoAnswer if it takes too much."""
    command = [sys.executable, "-m", "famulus.journal.apart", str(folder)]
    # Arrow's own allocators reserve address space in advance, which the bound counts.
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    try:
        done = subprocess.run(
            command,
            input=msgspec.json.encode(question),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=SECONDS_MAX,
            check=False,
        )
        return msgspec.json.decode(done.stdout, type=JournalAnswer)
    except (subprocess.TimeoutExpired, msgspec.MsgspecError):
        raise NoAnswer(_TOO_MUCH) from None


def _bound() -> None:
    import resource

    os.nice(NICENESS)
    with open("/proc/self/statm") as sizes:
        used = int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES_MAX,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS_MAX,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _main(folder: str) -> None:
    from famulus.journal.answering import answer

    _bound()
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    sys.stdout.buffer.write(msgspec.json.encode(answer(Path(folder), question)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
