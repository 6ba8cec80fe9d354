"""Takes out one check after the other, and sees that a test fails without it: see docs/testing.md.

    python -m tests.processes.without_checks            all of them, which takes some minutes
    python -m tests.processes.without_checks PLAIN      those whose names contain one of these words
    python -m tests.processes.without_checks --list

Each is taken out of a copy of the sources, which the test and all processes that it starts then run. What is in C has
the same check in its Python twin: that is what is run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
PYTHON = {"FAMULUS_CORE": "python", "FAMULUS_PUMP": "python", "PYTHONDONTWRITEBYTECODE": "1"}
TIMEOUT_S = 300
#: A test that fails because of what it demands; not because something cannot be imported, or does not start.
DEMAND = re.compile(r'(failed on setup with ")?(AssertionError|assert |Failed: DID NOT RAISE)')

IMPOSSIBLE = "tests/processes/test_impossible.py"
ANSWERS = "tests/processes/test_changed_answers.py"


@dataclass(frozen=True)
class Check:
    """A place in the sources; where there is nothing but care not to do something, `without` does it."""

    file: str
    #: It occurs once.
    text: str
    without: str


@dataclass(frozen=True)
class Attempt:
    """Something that must be impossible; more than one check: each of them would do."""

    name: str
    checks: tuple[Check, ...]
    #: Each of them fails when all of these checks are taken out.
    tests: tuple[str, ...]


SEALING = "famulus/net/sealing.py"
CURVE = "famulus/wire/curve.py"
STREAM = "famulus/net/stream_python.py"
LISTENER = "famulus/net/listener.py"
ROUTER = "famulus/core/routing/router.py"
DECISIONS = "famulus/core/dispatch/decisions.py"
PRINCIPALS = "famulus/core/steward/principals.py"

_PLAIN = "if mechanism == zmtp.NULL and self.plain_ok and (arrival.is_near or self._plain_from_afar):"
#: What the box was sealed with, without a look at its seal: it is a stream cipher, so that to seal is to open.
_NOT_LOOKED_AT = Check(
    CURVE,
    "opened = _open(self.key, self.hears + number, content[end:])",
    "opened = _seal(self.key, self.hears + number, content[end + _SEAL_BYTES :])[_SEAL_BYTES:]",
)
_NOT_COUNTED = Check(CURVE, "if _NUMBER.unpack(number)[0] != self.heard + 1:", "if False:")
_NO_RIGHTS = Check(
    ROUTER, "rights = everybody.get(principal, Rights())", 'rights = everybody.get(principal, Rights(("*",), ("*",)))'
)
#: Where a message is read, and where a router has decided about it.
_VOID = (
    Check("famulus/core/dispatch/dispatcher.py", "elif account.is_void:", "elif False:"),
    Check(DECISIONS, "if account.is_void:\n        # It was", "if False:\n        # It was"),
)


def impossible(*names: str) -> tuple[str, ...]:
    return tuple(f"{IMPOSSIBLE}::test_{name}" for name in names)


def changed(*names: str) -> tuple[str, ...]:
    """Towards the broker."""
    return impossible(*(f"what_is_changed_on_its_way_ends_the_connection[{name}]" for name in names))


def changed_answers(*names: str) -> tuple[str, ...]:
    return tuple(f"{ANSWERS}::test_a_client_that_hears_what_was_changed_hangs_up[{name}]" for name in names)


ATTEMPTS = (
    Attempt(
        "no key (NULL)",
        (Check(SEALING, _PLAIN, "if mechanism == zmtp.NULL:"),),
        impossible("nobody_gets_in_without_a_key[no key-frontend]"),
    ),
    Attempt(
        "PLAIN",
        (Check(SEALING, _PLAIN, 'if mechanism == b"PLAIN" or self.plain_ok:'),),
        impossible("nobody_gets_in_without_a_key[a name and a password-frontend]"),
    ),
    Attempt(
        # That of ZMTP 1.0 is too short to be taken for one.
        "the greeting of an older ZMTP",
        (
            Check("famulus/wire/zmtp.py", "if rest[0] < 3:", "if False:"),
            Check(SEALING, _PLAIN, "if mechanism not in (zmtp.NULL, curve.CURVE) or self.plain_ok:"),
        ),
        impossible("nobody_gets_in_without_a_key[ZMTP 2.0-frontend]"),
    ),
    Attempt(
        "a wrong server key",
        (Check(CURVE, 'raise Foreign("it does not know our key")', "return owns[0], _shared(client, owns[0])"),),
        impossible("who_means_another_broker_is_not_answered"),
    ),
    Attempt(
        "an unknown key",
        (Check(SEALING, "principal = self.known.get(key)", 'principal = self.known.get(key, "somebody")'),),
        impossible("an_unknown_key_opens_nothing[frontend]", "an_unknown_key_opens_nothing[backend]"),
    ),
    Attempt(
        "an expired key",
        (Check(PRINCIPALS, "if not 0 < each.expires_ms <= now_ms", "if each"),),
        impossible("an_expired_key_opens_nothing"),
    ),
    Attempt(
        "to be turned away without being counted",
        (Check(LISTENER, "note_turned_away(self.turned_away, TurnedAway(why, host_of(opening.name), key))", "pass"),),
        impossible("all_who_are_turned_away_are_counted"),
    ),
    Attempt(
        "a call without the right",
        (Check(ROUTER, 'self._lacks(caller, "call", [service])', 'self._lacks(caller, "call", [])'),),
        impossible("who_may_not_call_a_service_is_refused_and_told_what_to_do"),
    ),
    Attempt(
        "CONNECT without the right",
        (Check(ROUTER, "else rights.serve, services)", 'else ("*",), services)'),),
        impossible("who_may_not_serve_a_service_is_refused_whole"),
    ),
    Attempt(
        "CONNECT with another principal's identity",
        (Check(DECISIONS, "if holder is not None and holder.account is not account:", "if False:"),),
        impossible("nobody_takes_over_the_session_of_another_principals_worker"),
    ),
    Attempt(
        "to come while nobody says who may",
        (Check(SEALING, "self.plain_ok = False", "self.plain_ok = True"),),
        impossible("while_nobody_says_who_may_come_nobody_comes_and_those_inside_work_on"),
    ),
    Attempt("a byte flipped", (_NOT_LOOKED_AT,), (*changed("flipped"), *changed_answers("flipped"))),
    Attempt("a MESSAGE repeated", (_NOT_COUNTED,), (*changed("repeated"), *changed_answers("repeated"))),
    Attempt(
        "MESSAGEs reordered, one missing, an old number",
        (_NOT_COUNTED,),
        (
            *changed("reordered", "one_missing", "an_old_number"),
            *changed_answers("reordered", "taken_away"),
        ),
    ),
    Attempt(
        "a MESSAGE cut",
        (Check(STREAM, "if len(self._inbox) < head + size:", "if not self._inbox:"), _NOT_LOOKED_AT),
        impossible("what_is_cut_off_is_never_taken_for_a_message"),
    ),
    Attempt(
        "a frame that is not sealed",
        (
            Check(STREAM, 'raise Foreign("it sends what is not sealed")', "return frame, flags"),
            Check(CURVE, 'raise Foreign("it sends what is not sealed")', "return content, 0"),
        ),
        changed("not_sealed"),
    ),
    Attempt(
        "to go on after being revoked: a client",
        (*_VOID, _NO_RIGHTS),
        impossible("who_is_revoked_is_refused_within_2_s_and_nobody_else_notices"),
    ),
    Attempt(
        "to go on after being revoked: a worker",
        (
            Check(
                "famulus/core/dispatch/sessions.py",
                "for session in self.by_peer.values() if session.lacks_rights()]",
                "for session in self.by_peer.values() if False]",
            ),
        ),
        impossible("a_worker_that_is_revoked_gets_nothing_after_2_s_and_the_others_go_on"),
    ),
    Attempt(
        "a task that fails because a key is rotated",
        (Check(PRINCIPALS, "dict.fromkeys(principal.public_keys)", "principal.public_keys[:1]"),),
        impossible("keys_of_clients_and_workers_are_rotated_without_a_task_that_fails"),
    ),
    Attempt(
        "endless half-open handshakes",
        (Check(LISTENER, "if len(self._openings) >= OPENINGS_MAX:", "if False:"),),
        impossible("ten_thousand_who_begin_and_do_not_go_on"),
    ),
    Attempt(
        "handshakes from one address at full speed",
        (Check(SEALING, "if turn_ns > now_ns:", "if False:"),),
        impossible("who_begins_again_and_again_is_held_back"),
    ),
    Attempt(
        "a pass that others may read",
        (Check("famulus/net/private_files.py", "if mode & 0o077:", "if False:"),),
        impossible("a_pass_that_others_may_read_is_refused"),
    ),
    Attempt(
        "a secret in a log",
        (
            Check(
                "famulus/broker/steward.py",
                "joiners = self._joiners(core, now_ms)",
                'joiners = self._joiners(core, now_ms); log.info("%s", str(self._member.secret()))',
            ),
        ),
        impossible("no_secret_is_shown_anywhere"),
    ),
    Attempt(
        "a secret in a traceback",
        (Check("famulus/net/passes.py", "PassFile(name={self.name!r})", "PassFile({self.secret_key!r})"),),
        impossible("no_secret_is_shown_anywhere"),
    ),
    Attempt(
        "a secret in /proc",
        (
            Check(
                "famulus/broker/child.py",
                '"-m", self.module],',
                '"-m", self.module, open(settings["settings"]["folder"] + "/join.secret").read()],',
            ),
        ),
        impossible("no_secret_is_shown_anywhere"),
    ),
    Attempt(
        "a secret in what an admin is shown",
        (Check("famulus/core/steward/answers.py", "if not is_secret(key) or value is None:", "if True:"),),
        impossible("no_secret_is_shown_anywhere"),
    ),
    Attempt(
        "a secret in `status`",
        (
            Check(
                "famulus/core/telling.py",
                "keys=config.family(mine.family).keys if mine",
                "keys=str(config.admins) if mine",
            ),
        ),
        impossible("no_secret_is_shown_anywhere"),
    ),
    Attempt(
        "a task of a revoked client, handed over",
        (*_VOID, _NO_RIGHTS),
        impossible("a_task_that_is_handed_over_needs_the_rights_of_its_client_there_too"),
    ),
    Attempt(
        "a forged `via`, or principal",
        (
            Check(ROUTER, "return not (is_sound or self._needs_no_key(principal))", "return False"),
            Check(
                ROUTER,
                "return task.principal if is_broker and not self._needs_no_key(principal) else principal",
                "return task.principal or principal",
            ),
            Check(DECISIONS, "and (not passed_for or question.account.is_broker)", ""),
        ),
        impossible("what_a_client_says_of_itself_in_a_header_counts_for_nothing"),
    ),
    Attempt(
        "to go on as a broker that was forgotten",
        _VOID,
        impossible("a_broker_that_was_forgotten_is_nobody_any_more"),
    ),
)


def run(sources: Path, tests: Sequence[str]) -> dict[str, str]:
    """How each of these tests fails; empty: it passes."""
    report = sources.parent / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
    environment = {**os.environ, **PYTHON, "PYTHONPATH": str(sources)}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return dict.fromkeys(tests, f"took more than {TIMEOUT_S} s")
    if not report.exists():
        raise SystemExit(done.stdout + done.stderr)
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        failure = next((each for each in case if each.tag in ("failure", "error")), None)
        message = "" if failure is None else failure.attrib["message"] or "?"
        # What it leaves behind because it has failed is another case of the same name.
        found[case.attrib["name"]] = found.get(case.attrib["name"]) or message
    return found


def take_out(sources: Path, checks: Sequence[Check]) -> None:
    for check in checks:
        file = sources / check.file
        text = file.read_text()
        assert text.count(check.text) == 1, f"{check.file}: {check.text}"
        file.write_text(text.replace(check.text, check.without))


def put_back(sources: Path, checks: Sequence[Check]) -> None:
    for check in checks:
        shutil.copyfile(SOURCES / check.file, sources / check.file)


def verdict(found: dict[str, str]) -> str:
    """`fails without it` if each of the tests does, by what it demands."""
    if not found or not all(found.values()):
        return "STILL PASSES"
    others = [message for message in found.values() if not DEMAND.match(message)]
    return f"FAILS FOR ANOTHER REASON: {others[0]}" if others else "fails without it"


def main(*words: str) -> int:
    chosen = [each for each in ATTEMPTS if not words or any(word in each.name for word in words)]
    if words == ("--list",):
        print("\n".join(each.name for each in ATTEMPTS))
        return 0
    if not chosen:
        # Without the name of a test, pytest would run all there are.
        print(f"No name contains {' or '.join(words)}; --list prints all of them", file=sys.stderr)
        return 2
    with TemporaryDirectory(prefix="famulus-without-") as folder:
        sources = Path(folder) / "src"
        shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
        tests = list(dict.fromkeys(test for each in chosen for test in each.tests))
        if failures := {name: message for name, message in run(sources, tests).items() if message}:
            print(f"With all checks in place, these fail already: {failures}")
            return 2
        verdicts = []
        for each in chosen:
            take_out(sources, each.checks)
            verdicts.append(verdict(run(sources, each.tests)))
            put_back(sources, each.checks)
            print(f"{each.name:50}{verdicts[-1]}", flush=True)
    return int(any(each != "fails without it" for each in verdicts))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
