"""Exit codes of the commands."""

from __future__ import annotations

from typing import Final

from famulus.cli.explain.words.entry import Kind, entry

_CODES: Final = "operations.md#exit-codes"
_ADMIN: Final = "administration.md#for-scripts"
_PIPELINE: Final = "pipeline.md#commands"

EXIT_CODES: Final = Kind(
    "exit code",
    "Exit codes",
    "What went wrong is one line on standard error that begins with `famulus:`. Codes above 2 mean different things to "
    "different commands.",
    (
        entry("0", "Done. Of call: OK. Of broker: stopped by a signal. Of worker: drained.", page=_CODES),
        entry(
            "1",
            "It failed, or what was asked for is not there.",
            why="Of broker: one of its processes died again and again. Of worker: tasks were given up. Of call: "
            "ERROR. Of trace: no journal has the task. Of journal verify: something is missing. Of status: the "
            "broker is not ready. Of an admin's command: the broker refused, or --wait ended too early.",
            remedy="Read the line that begins with famulus:.",
            page=_CODES,
        ),
        entry(
            "2",
            "Wrong usage: an option, a setting, a file, a folder or a port.",
            remedy="The line names it; --help of the command has an example.",
            again="After it is mended.",
            page=_CODES,
        ),
        entry(
            "3",
            "REJECTED: the task did not run.",
            when="of call",
            remedy="See the reason.",
            again="Safe.",
            page="clients-and-workers.md#famulus-call",
        ),
        entry(
            "3",
            "No broker could be reached, or none answered.",
            when="of an admin's command",
            remedy="Look whether an edit was accepted before you send it again.",
            again="After another look.",
            page=_ADMIN,
        ),
        entry("3", "The journal is empty.", when="of pipeline", remedy="Check --journal.", page=_PIPELINE),
        entry(
            "4",
            "UNKNOWN: the task may have run.",
            when="of call",
            remedy="famulus trace tells what is known about it.",
            again="Only if running it twice does no harm.",
            page="clients-and-workers.md#famulus-call",
        ),
        entry(
            "4",
            "Nobody answers there.",
            when="of worker, status and their kin",
            remedy="Start the broker first, start the worker with --wait, or name several brokers; check the address.",
            again="Safe.",
            page=_CODES,
        ),
        entry(
            "4",
            "A wrong name or password, or not yours to change.",
            when="of an admin's command",
            remedy="The sentence says which.",
            page=_ADMIN,
        ),
        entry(
            "5",
            "Somebody else was faster: the key has moved, and nothing was changed.",
            when="of an admin's command",
            remedy="Look at the difference, and decide again.",
            again="After another look.",
            page=_ADMIN,
        ),
        entry(
            "6",
            "Another run is making these tables.",
            when="of pipeline",
            remedy="Wait for it, or give other tables with --tables.",
            again="Safe, later.",
            page=_PIPELINE,
        ),
        entry("130", "Interrupted, mostly by Ctrl-C.", page=_CODES),
    ),
    named=True,
)
