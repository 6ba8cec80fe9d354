"""What all commands of an admin have in common: who asks, with which password, at which broker, and how it ends."""

from __future__ import annotations

import getpass
import os
import re
import select
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
import zmq
from tests.unit.cli.conftest import NEW_PASSWORD, PASSWORD, Command, PlayedBroker

from famulus.cli.main import new_app
from famulus.wire import headers

app = new_app()

COMMANDS = [
    ("config", "show"),
    ("config", "get", "family/main"),
    ("config", "set", "service/echo", "timeout_ms=5"),
    ("config", "unset", "family/main"),
    ("config", "history", "family/main"),
    ("config", "diff", "family/main"),
    ("config", "rollback", "family/main", "abcdef"),
    ("config", "conflicts"),
    ("config", "resolve", "family/main", "--choose", "abcdef"),
    ("config", "export", "-"),
    ("config", "import", "FILE"),
    ("broker-admin", "enable", "b1"),
    ("broker-admin", "disable", "b1"),
    ("broker-admin", "drain", "b1"),
    ("broker-admin", "forget", "b1"),
    ("admins", "list"),
    ("admins", "add", "ben"),
    ("admins", "remove", "ann"),
    ("admins", "passwd"),
    ("broker-admin", "trust", "ab" * 32),
    ("broker-admin", "distrust", "ab" * 32),
    ("errors", "add", "w1"),
    ("errors", "list"),
    ("errors", "clear"),
]
EVERY = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text('{"format": 1, "keys": {"service/echo": {}}}')


# -- how it ends --------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("as_json", [False, True])
def test_a_wrong_password_is_exit_code_8(
    broker: PlayedBroker,
    famulus: Command,
    words: tuple[str, ...],
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAMULUS_ADMIN_PASSWORD", "perch-6")
    version = broker.edits.version
    wrong = famulus(*words, *(["--json"] if as_json else []))
    assert (wrong.code, wrong.err) == (8, "famulus: not_allowed: wrong name or password\n")
    assert "perch-6" not in wrong.out
    if as_json:
        assert wrong.json == {"outcome": "REJECTED", "reason": "not_allowed: wrong name or password"}
    else:
        assert wrong.out == ""
    assert broker.edits.version == version


@EVERY
def test_no_broker_is_exit_code_7_and_no_question_for_a_password(
    famulus: Command, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAMULUS_ADMIN_PASSWORD")
    monkeypatch.setattr(getpass, "getpass", lambda prompt: pytest.fail("nobody should be asked"))
    nobody = famulus(*words, "--broker", unused_address(), "--timeout", "0.1")
    assert (nobody.code, nobody.out, nobody.err.count("\n")) == (7, "", 1)
    assert "no broker answers at tcp://127.0.0.1:" in nobody.err


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("not_allowed", 8),
        ("disabled", 1),
        ("overload", 1),
        ("unknown_request", 1),
        ("broker_lost", 7),
        ("conflict", 5),
    ],
)
def test_what_a_broker_says_decides_the_exit_code(
    broker: PlayedBroker, famulus: Command, code: str, exit_code: int
) -> None:
    broker.answer = headers.write_error(code, "for a reason")
    refused = famulus("config", "show", "--json")
    assert refused.code == exit_code
    assert refused.json["reason"].startswith(f"{code}: for a reason")
    broker.answer = headers.write("MANAGE", "RESPONSE", outcome="REJECTED", reason=f"{code}: for a reason")
    assert famulus("config", "show").code == exit_code


def test_nothing_that_a_broker_says_is_obeyed_by_a_terminal(broker: PlayedBroker, famulus: Command) -> None:
    evil = "\x1b[2J\x9b\u202e"
    broker.put("shoe/size", {evil: evil})
    for words in (("config", "get", "shoe/size"), ("config", "show", "--json"), ("config", "show")):
        shown = famulus(*words)
        assert shown.code == 0
        assert all(line.isprintable() for line in shown.out.split("\n"))
    assert famulus("config", "get", "shoe/size", "--json").json["value"] == {evil: evil}
    broker.answer = headers.write_error("disabled", evil)
    refused = famulus("config", "show", "--json")
    assert all(line.isprintable() for line in (refused.out + refused.err).split("\n"))


def test_silence_is_exit_code_7_and_says_that_it_may_be_done(broker: PlayedBroker, famulus: Command) -> None:
    broker.answer = b""
    silent = famulus("config", "show", "--timeout", "0.3")
    assert silent.code == 7
    assert "did not answer within 0.3 s; what was asked for may have been done" in silent.err


def test_an_address_that_is_none_is_exit_code_2(famulus: Command) -> None:
    assert famulus("config", "show", "--broker", "nonsense").code == 2


@pytest.mark.parametrize("group", ["config", "broker-admin", "admins", "errors"])
def test_a_group_alone_explains_itself(famulus: Command, group: str) -> None:
    alone = famulus(group)
    assert (alone.code, alone.out) == (2, "")
    assert {words[1] for words in COMMANDS if words[0] == group} <= set(alone.err.split())


def test_every_command_is_tried_here(famulus: Command) -> None:
    """So that what holds for all of them is tried with all of them."""
    tried = {words[:2] for words in COMMANDS}
    groups: Any = typer.main.get_command(app)
    for name in ("config", "broker-admin", "admins", "errors"):
        assert {(name, each) for each in groups.commands[name].commands} == {
            words for words in tried if words[0] == name
        }


# -- who asks -----------------------------------------------------------------------------------------------------


def test_the_user_is_the_option_the_environment_or_the_login_name(
    broker: PlayedBroker, famulus: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert famulus("config", "show", "--user", "eve").code == 8
    monkeypatch.delenv("FAMULUS_ADMIN")
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    assert famulus("config", "show").code == 0

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    unknown = famulus("config", "show")
    assert (unknown.code, "FAMULUS_ADMIN" in unknown.err) == (2, True)


def test_the_password_file_wins_over_the_environment(
    broker: PlayedBroker, famulus: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\r\nnot this line\n")
    file.chmod(0o600)
    monkeypatch.setenv("FAMULUS_ADMIN_PASSWORD", "wrong")
    done = famulus("config", "show", "--password-file", str(file))
    assert (done.code, done.err) == (0, "")
    file.chmod(0o644)
    assert "chmod 600" in famulus("config", "show", "--password-file", str(file)).err


@pytest.mark.parametrize("content", [b"", b"\nsecond line", b"x" * 5000])
def test_a_file_without_a_password_is_one_line(
    famulus: Command, tmp_path: Path, content: bytes, broker: PlayedBroker
) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    file.chmod(0o600)
    wrong = famulus("config", "show", "--password-file", str(file))
    assert (wrong.code, wrong.err) == (2, f"famulus: {file}: its first line is not a password\n")
    assert famulus("config", "show", "--password-file", str(tmp_path / "none")).code == 2
    assert broker.requests == []


def test_without_a_terminal_nobody_is_asked(
    broker: PlayedBroker, famulus: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a pipe a password would be echoed, so it is not read from there."""
    monkeypatch.delenv("FAMULUS_ADMIN_PASSWORD")
    monkeypatch.setattr(os, "open", refuse_terminal(os.open))
    no_terminal = famulus("config", "show", stdin=f"{PASSWORD}\n")
    assert no_terminal.code == 2
    assert "FAMULUS_ADMIN_PASSWORD, or give --password-file" in no_terminal.err
    assert broker.requests == []


@pytest.mark.parametrize("password", ["", None])
def test_no_password_at_the_prompt(
    famulus: Command, monkeypatch: pytest.MonkeyPatch, password: str | None, broker: PlayedBroker
) -> None:
    def answer(prompt: str) -> str:
        if password is None:
            raise EOFError
        return password

    monkeypatch.delenv("FAMULUS_ADMIN_PASSWORD")
    monkeypatch.setattr(getpass, "getpass", answer)
    assert famulus("config", "show").code == 2
    assert broker.requests == []


def test_one_question_is_enough_for_a_whole_command(
    broker: PlayedBroker, famulus: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return PASSWORD

    monkeypatch.delenv("FAMULUS_ADMIN_PASSWORD")
    monkeypatch.setattr(getpass, "getpass", answer)
    assert famulus("config", "set", "service/echo", "timeout_ms=5", "--wait", "5").code == 0
    assert broker.commands() == ["show", "edit", "seen"]
    assert prompts == [f"password of ann at {broker.address}: "]


def test_ctrl_c_at_the_prompt(broker: PlayedBroker, famulus: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.delenv("FAMULUS_ADMIN_PASSWORD")
    monkeypatch.setattr(getpass, "getpass", interrupt)
    stopped = famulus("config", "show")
    assert (stopped.code, stopped.out, stopped.err) == (130, "", "")
    assert broker.requests == []


# -- secrets ------------------------------------------------------------------------------------------------------


@EVERY
def test_no_traceback_shows_a_secret(
    broker: PlayedBroker, famulus: Command, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even one that shows all variables: whoever sends us one by mail must not send a password along."""
    monkeypatch.setattr(getpass, "getpass", lambda prompt: NEW_PASSWORD)
    broker.answer = headers.write_error("disabled", "no")
    with pytest.raises(Exception, match="disabled: no") as caught:
        app([*words], standalone_mode=False)
    assert_no_secret(caught.value)


@pytest.mark.parametrize("words", [("admins", "add", "ben"), ("admins", "passwd")], ids=" ".join)
def test_no_traceback_shows_a_new_password(
    broker: PlayedBroker, famulus: Command, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getpass", lambda prompt: NEW_PASSWORD)
    broker.meanwhile = lambda: broker.put("admin/main/ann", {"hash": "x"}) and broker.put("admin/main/ben", {})
    with pytest.raises(Exception, match="conflict: ") as caught:
        app([*words], standalone_mode=False)
    assert_no_secret(caught.value)


def test_no_request_that_cannot_be_sent_shows_a_secret(
    broker: PlayedBroker, famulus: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAMULUS_ADMIN_PASSWORD", PASSWORD + "\udcff")
    with pytest.raises(Exception, match="cannot be sent") as caught:
        app(["config", "show"], standalone_mode=False)
    assert_no_secret(caught.value)
    assert famulus("config", "show").code == 2


def assert_no_secret(error: BaseException) -> None:
    told = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    # The test's own frame knows them, of course.
    frames = told[told.index("famulus/cli/") :]
    assert "Secret(hidden)" in frames
    for secret in (PASSWORD, NEW_PASSWORD):
        assert secret not in frames


# -- at a real terminal -------------------------------------------------------------------------------------------

#: Makes its standard input the terminal of its session, as a login does, and becomes the command.
AT_TERMINAL = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"


@contextmanager
def terminal(*words: str, env: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    ours, theirs = os.openpty()
    python = sys.executable
    command = [python, "-c", AT_TERMINAL, python, "-m", "famulus", *words]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, pattern: str) -> str:
    """What is on the screen when this is; or all of it when the command has ended."""
    said = b""
    until = time.monotonic() + 20
    while not re.search(pattern, said.decode(errors="replace")):
        assert time.monotonic() < until, said
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                said += os.read(terminal, 4096)
            except OSError:  # the other side is closed
                break
    return said.decode()


@pytest.fixture
def env(broker: PlayedBroker) -> dict[str, str]:
    without = {name: value for name, value in os.environ.items() if name != "FAMULUS_ADMIN_PASSWORD"}
    return without | {"FAMULUS_FRONTEND": broker.address, "FAMULUS_ADMIN": "ann"}


def test_the_password_is_not_echoed(env: dict[str, str]) -> None:
    with terminal("config", "show", env=env) as (process, screen):
        assert "password of ann at tcp://" in read_until(screen, "password of ann .*: ")
        os.write(screen, f"{PASSWORD}\n".encode())
        rest = read_until(screen, "admin/main/ann .*Z root")
        assert process.wait(20) == 0
    assert "family/main" in rest
    assert PASSWORD not in rest


def test_ctrl_c_at_the_prompt_of_a_terminal(env: dict[str, str], broker: PlayedBroker) -> None:
    with terminal("config", "show", env=env) as (process, screen):
        read_until(screen, "password of ann .*: ")
        os.write(screen, b"\x03")
        assert process.wait(20) == 130
        assert "Traceback" not in read_until(screen, "Traceback")
    assert broker.requests == []


# -- help for the tests -------------------------------------------------------------------------------------------


def unused_address() -> str:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        return f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"


def refuse_terminal(really: object) -> object:
    def opened(path: object, *arguments: object, **more: object) -> object:
        if path == "/dev/tty":
            raise OSError("no terminal here")
        return really(path, *arguments, **more)  # type: ignore[operator]

    return opened
