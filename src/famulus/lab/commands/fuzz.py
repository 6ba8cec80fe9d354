"""`famulus fuzz`: a million inputs that no honest side would send, for handshakes and sealed streams.

They are tried in a process of its own, which may crash or hang without taking along what we know about it. It writes
lines of JSON to its pipe: `FuzzReport`. `python -m famulus.lab.commands.fuzz SEED FIRST INPUTS` is that process.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from famulus.exit_codes import ExitCode
from famulus.lab.processes import python

#: Between two lines of the process, if it does not hang.
TELL_S = 1.0
#: More inputs are not tried in that time.
UNTOLD_MAX = 100_000
#: No input takes anything like it.
SILENCE_S = 60.0


class FuzzReport(msgspec.Struct, omit_defaults=True):
    """How far it is; after the last input, or a failure, also what there was."""

    #: How many inputs were tried without a failure.
    done: int
    kinds: dict[str, int] = {}
    #: What went wrong with the next one; empty if nothing did, or if nobody could say so.
    failure: str = ""


def fuzz(
    inputs: Annotated[int, typer.Option(min=1, metavar="N", help="How many to try.")] = 1_000_000,
    seed: Annotated[int | None, typer.Option(min=0, metavar="SEED", help="Drawn by chance unless told.")] = None,
    first: Annotated[int, typer.Option(min=0, metavar="N", help="The number of the first input.")] = 0,
    seconds: Annotated[float, typer.Option(min=0, metavar="S", help="Stop after this time; 0: when all are done.")] = 0,
) -> None:
    """Feed handshakes and sealed streams what no honest side would send, and see that none of it is accepted.

    Honest handshakes and conversations are changed on their way: bytes are flipped, cut out and put in, commands are
    dropped, repeated, put in another order, or taken from another connection, lengths are wrong; and there are those
    who speak something else, or have no key. Both sides of our handshake hear that, and all that read sealed frames,
    in C and in Python. A handshake that was changed must be refused, and what a stream gives out must be what was
    sealed: in order, none twice, none left out. Nothing may crash, raise or hang.

    An input follows from the seed and its number. Exit code: 0 if all went well; 1 if not, and then it says how to
    try the one input again.

    Examples:

    famulus fuzz

    famulus fuzz --inputs 10000 --seed 7

    famulus fuzz --seconds 60
    """
    chosen = int.from_bytes(os.urandom(4), "big") if seed is None else seed
    typer.echo(f"seed {chosen}, {inputs:,} inputs from {first}")
    process = _start(chosen, first, inputs)
    try:
        code = _follow(process, chosen, first, inputs, seconds)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    raise typer.Exit(code)


def _follow(process: subprocess.Popen[bytes], seed: int, first: int, inputs: int, seconds: float) -> ExitCode:
    """Say how far it is, until it is over; the exit code."""
    began, told = time.monotonic(), FuzzReport(0)
    shown = began
    try:
        for told in _lines(process):
            now = time.monotonic()
            if told.failure or (seconds and now - began >= seconds):
                break
            if now - shown >= 10 * TELL_S:
                shown = now
                typer.echo(_progress(told.done, now - began))
    except KeyboardInterrupt:
        typer.echo(f"stopped: {_progress(told.done, time.monotonic() - began)}, nothing was wrong with them")
        raise
    except TimeoutError:
        why = f"nothing was heard for {SILENCE_S:.0f} s: one of the next inputs hangs"
    else:
        is_over = told.done >= inputs or bool(seconds and time.monotonic() - began >= seconds)
        ended = "" if told.failure or is_over else _ended(process.wait())
        why = told.failure or (f"the process ended with {ended}: one of the next inputs crashes it" if ended else "")
    typer.echo(_progress(told.done, time.monotonic() - began))
    for kind, count in sorted(told.kinds.items()):
        typer.echo(f"{count:>12,}  {kind}")
    if not why:
        typer.echo("nothing that was changed was accepted")
        return ExitCode.DONE
    number = first + told.done
    # If nobody could say which it was, it is one of those that were tried since we last heard of it.
    count = 1 if told.failure else min(inputs - told.done, UNTOLD_MAX)
    typer.echo(f"seed {seed}, input {number}: {why}")
    typer.echo(f"    again: famulus fuzz --seed {seed} --first {number} --inputs {count}")
    return ExitCode.FAILED


def _progress(done: int, seconds: float) -> str:
    return f"{done:,} inputs in {seconds:.1f} s, {done / max(seconds, 0.001):,.0f} a second"


def _ended(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _start(seed: int, first: int, inputs: int) -> subprocess.Popen[bytes]:
    command = python("famulus.lab.commands.fuzz", str(seed), str(first), str(inputs))
    # Not in our process group: on Ctrl-C we stop it, and it prints nothing.
    return subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)


def _lines(process: subprocess.Popen[bytes]) -> Iterator[FuzzReport]:
    """A TimeoutError if there is none for too long."""
    assert process.stdout is not None
    fd, rest = process.stdout.fileno(), b""
    decode = msgspec.json.Decoder(FuzzReport).decode
    while True:
        if not select.select([fd], [], [], SILENCE_S)[0]:
            raise TimeoutError
        chunk = os.read(fd, 65536)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from map(decode, lines)


# -- the process that tries them ------------------------------------------------------------------------------------


def _work(seed: int, first: int, inputs: int) -> None:
    from famulus.lab.fuzz.failure import Failure
    from famulus.lab.fuzz.run import Fuzz

    trial = Fuzz(seed)
    _tell(FuzzReport(0))
    told = time.monotonic()
    for done in range(inputs):
        try:
            trial.try_one(first + done)
        except Failure as failure:
            _tell(FuzzReport(done, trial.kinds, str(failure)))
            return
        if not done % 64 and time.monotonic() - told >= TELL_S:
            told = time.monotonic()
            _tell(FuzzReport(done + 1, trial.kinds))
    _tell(FuzzReport(inputs, trial.kinds))


def _tell(told: FuzzReport) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        _work(*map(int, sys.argv[1:]))
    except BrokenPipeError:
        os._exit(ExitCode.FAILED)
