"""Every command of an admin, against a real network, as an admin types it: for people and with --json."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.processes.conftest import Raw, wait_until
from tests.processes.networks import PASSWORD, Network

WAIT = ("--wait", "20")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Two brokers of the family main and one of london, which has an admin of its own."""
    with ExitStack() as closing:
        network = Network(tmp_path_factory.mktemp("cli"))
        closing.callback(network.close)
        network.found("b1")
        network.join("b2", wait=False)
        network.join("l1", family="london", wait=False)
        for identity in ("b2", "l1"):
            network[identity].broker.wait_until_ready(60)
        network.wait_until_in_step(20)
        yield network


def written(path: Path, text: str) -> str:
    path.write_text(text + "\n")
    path.chmod(0o600)
    return str(path)


# -- the config -----------------------------------------------------------------------------------------------------


def test_set_get_show_unset(network: Network) -> None:
    b1, b2 = network["b1"], network["b2"]
    said = b1.cli("config", "set", "service/a", "timeout_ms=1000", *WAIT).stdout
    assert re.fullmatch(r"accepted, seen by 3 of 3 brokers \(edit [0-9a-f]{8}\)\n", said)
    facts = b2.cli_json("config", "set", "service/a", '{"timeout_ms": 2000}', *WAIT)
    assert (facts["seen"], facts["brokers"], facts["missing"], facts["warnings"]) == (3, 3, [], [])
    (edit,) = facts["edits"]
    assert facts["digest"] == b1.admin.digest()
    assert b1.cli("config", "set", "service/a", "timeout_ms=2000").stdout == (
        "service/a is that already; nothing was sent\n"
    )
    assert b1.cli_json("config", "set", "service/a", "timeout_ms=2000") == {"edits": []}
    assert json.loads(b1.cli("config", "get", "service/a").stdout) == {"timeout_ms": 2000}
    got = b1.cli_json("config", "get", "service/a")
    assert (got["value"], got["conflict"], [head["id"] for head in got["heads"]]) == (
        {"timeout_ms": 2000},
        False,
        [edit],
    )
    shown = b1.cli("config", "show").stdout
    assert re.search(r"^  b1  main    active  alive  same config$", shown, re.MULTILINE), shown
    assert re.search(r"^  service/a  timeout_ms=2000  .*Z admin$", shown, re.MULTILINE), shown
    assert list(b1.cli_json("config", "show", "service/")["keys"]) == ["service/a"]
    assert "accepted" in b1.cli("config", "unset", "service/a", *WAIT).stdout
    assert b2.cli("config", "get", "service/a", code=1).stderr == "famulus: service/a is not set\n"
    assert "service/a" not in b2.cli("config", "show", "service/").stdout
    assert "service/a" in b2.cli("config", "show", "service/", "--deleted").stdout
    assert b2.cli("config", "unset", "service/a", code=1).stderr.count("\n") == 1


def test_history_diff_and_rollback(network: Network) -> None:
    b1 = network["b1"]
    (first,) = b1.cli_json("config", "set", "service/h", "timeout_ms=1000")["edits"]
    (second,) = b1.cli_json("config", "set", "service/h", "timeout_ms=2000", "max_attempts=5")["edits"]
    told = b1.cli("config", "history", "service/h").stdout.splitlines()
    assert [first[:8] in told[0], second[:8] in told[1]] == [True, True]
    assert told[1].startswith("head  ")
    assert "max_attempts: - -> 5, timeout_ms: 1000 -> 2000" in told[1]
    assert [each["id"] for each in b1.cli_json("config", "history", "service/h")["edits"]] == [first, second]
    difference = b1.cli("config", "diff", "service/h", first[:6], second[:6]).stdout
    assert re.search(r"^timeout_ms +1000 +2000$", difference, re.MULTILINE), difference
    (facts,) = b1.cli_json("config", "diff", "service/h")["differences"]
    assert (facts["from"], facts["to"]) == (first, second)
    assert {"field": "timeout_ms", "seen": 1000, "now": 2000} in facts["difference"]
    assert "accepted" in b1.cli("config", "rollback", "service/h", first[:8]).stdout
    assert json.loads(b1.cli("config", "get", "service/h").stdout) == {"timeout_ms": 1000}
    assert b1.cli_json("config", "rollback", "service/h", first) == {"edits": []}
    assert "ffffff" in b1.cli("config", "rollback", "service/h", "ffffff", code=2).stderr
    assert b1.cli("config", "history", "service/never", code=1).stderr == "famulus: there is no edit of service/never\n"


def test_who_looked_earlier_is_refused_with_the_difference(network: Network) -> None:
    b1, b2 = network["b1"], network["b2"]
    (seen,) = b1.cli_json("config", "set", "service/m", "timeout_ms=1000", *WAIT)["edits"]
    (now,) = b2.cli_json("config", "set", "service/m", "timeout_ms=3000", *WAIT)["edits"]
    refused = b1.cli("config", "set", "service/m", "timeout_ms=9", "--parents", seen[:12], code=5)
    assert refused.stdout == ""
    assert refused.stderr.splitlines() == [
        f"service/m has moved on; its heads are {now[:8]}",
        "  field       as seen  now",
        "  timeout_ms  1000     3000",
        "famulus: conflict: the config has changed since you looked",
    ]
    (moved,) = b1.cli_json("config", "unset", "service/m", "--parents", seen, code=5)["moved"]
    assert moved["difference"] == [{"field": "timeout_ms", "seen": 1000, "now": 3000}]
    assert (moved["heads"], moved["unknown"]) == ([now], [])


def test_what_brokers_would_ignore_is_not_sent(network: Network) -> None:
    b1 = network["b1"]
    refused = b1.cli("config", "set", "service/w", "timeout_ms=soon", code=2).stderr
    assert refused.endswith("famulus: nothing was sent, since brokers would ignore service/w; --force sends it\n")
    assert "timeout_mss" in b1.cli("config", "set", "service/w", "timeout_mss=1").stderr, "a typing error is said"
    assert "admins and their passwords" in b1.cli("config", "set", "admin/main/x", "hash=1", code=2).stderr


def test_export_and_import(network: Network, tmp_path: Path) -> None:
    b1, b2 = network["b1"], network["b2"]
    file = tmp_path / "config.json"
    b1.cli("config", "set", "service/e", "timeout_ms=1000", *WAIT)
    assert f"are in {file}" in b1.cli("config", "export", str(file)).stdout
    assert b2.cli("config", "export", "-").stdout == file.read_text(), "equal configs give equal files"
    assert b1.cli_json("config", "export", str(file))["file"] == str(file)
    assert "argon2" not in file.read_text()
    assert "everything is as the file says" in b1.cli("config", "import", str(file)).stdout
    content = json.loads(file.read_text())
    content["keys"]["service/e"] = {"timeout_ms": 5000}
    content["keys"]["service/new"] = {}
    file.write_text(json.dumps(content))
    dry = b1.cli("config", "import", str(file), "--dry-run").stdout
    assert "nothing was sent: a dry run" in dry
    assert re.search(r"timeout_ms +1000 +5000", dry), dry
    facts = b1.cli_json("config", "import", str(file), "--dry-run")
    assert (facts["dry_run"], [each["key"] for each in facts["changes"]]) == (True, ["service/e", "service/new"])
    assert b1.admin.value("service/e") == {"timeout_ms": 1000}
    assert "nothing was changed" in b1.cli("config", "import", str(file), typed="n\n", code=1).stderr
    assert "accepted, seen by 3 of 3" in b1.cli("config", "import", str(file), *WAIT, typed="y\n").stdout
    assert b2.admin.value("service/e") == {"timeout_ms": 5000}
    assert b2.cli_json("config", "import", str(file), "--yes") == {"edits": []}
    file.write_text(json.dumps(content | {"network": "ab" * 32}))
    assert "is of another network" in b1.cli("config", "import", str(file), code=2).stderr
    file.write_text("{")
    assert b1.cli("config", "import", str(file), code=2).stderr.count("\n") == 1


def test_conflicts_when_there_are_none(network: Network) -> None:
    b1 = network["b1"]
    assert b1.cli("config", "conflicts").stdout == "no conflicts\n"
    assert b1.cli_json("config", "conflicts") == {"conflicts": {}}
    assert "--choose" in b1.cli("config", "resolve", "family/main", code=2).stderr
    assert "not in conflict" in b1.cli("config", "resolve", "family/main", "--value", "{}", code=1).stderr


# -- brokers --------------------------------------------------------------------------------------------------------


def test_a_broker_is_drained_disabled_and_enabled(network: Network) -> None:
    b1, b2 = network["b1"], network["b2"]
    for command, state, takes in (("drain", "draining", False), ("disable", "disabled", False)):
        assert "accepted, seen by 3 of 3" in b1.cli("broker-admin", command, "b2", *WAIT).stdout
        assert b2.admin.told("show")["brokers"]["b2"]["state"] == state
        wait_until(lambda takes=takes: b2.is_active() is takes, 20, f"that it is {state}")  # type: ignore[misc]
        assert b1.cli("broker-admin", command, "b2").stdout == f"b2 is {state} already; nothing was sent\n"
    refused = b2.cli_json("config", "set", "service/d", "timeout_ms=1", code=1)
    assert refused["reason"] == "disabled: this broker is disabled; only broker_state/b2 can be changed here"
    assert b2.cli_json("broker-admin", "enable", "b2", *WAIT)["missing"] == []
    wait_until(b2.is_active, 20, "that it is active")
    assert "there is no broker 'b9'; there is b1, b2, l1" in b1.cli("broker-admin", "drain", "b9", code=1).stderr


def test_a_broker_joins_is_forgotten_and_joins_under_a_new_key(network: Network) -> None:
    b1 = network["b1"]
    b4 = network.join("b4")
    wait_until(lambda: b1.admin.told("show")["brokers"].get("b4", {}).get("alive"), 20, "b4 alive")
    assert b1.cli("broker-admin", "forget", "b4", code=1).stderr == (
        "famulus: b4 is alive: stop it first, or give --force\n"
    )
    b4.kill()
    del network.members["b4"]
    wait_until(lambda: not b1.admin.told("show")["brokers"]["b4"]["alive"], 20, "b4 lost")
    edited = b1.cli_json("broker-admin", "forget", "b4", *WAIT)
    assert (len(edited["edits"]), edited["brokers"], edited["missing"]) == (2, 3, [])
    assert "b4" not in b1.cli_json("config", "show")["brokers"]
    assert "there is no broker 'b4'" in b1.cli("broker-admin", "forget", "b4", code=1).stderr
    # Started all the same, it is alone.
    b4.start()
    assert not any(facts["alive"] for name, facts in b4.admin.told("show")["brokers"].items() if name != "b4")
    assert "b4" not in b1.admin.told("show")["brokers"]
    b4.kill()
    shutil.rmtree(b4.path)
    b4 = network.join("b4")
    wait_until(lambda: b1.admin.told("show")["brokers"].get("b4", {}).get("same"), 20, "b4 alive and in step")
    b4.kill()
    b1.cli("broker-admin", "forget", "b4", "--force", *WAIT)
    del network.members["b4"]


# -- admins ---------------------------------------------------------------------------------------------------------


def test_admins_are_added_given_another_password_and_removed(network: Network, tmp_path: Path) -> None:
    b1, b2 = network["b1"], network["b2"]
    first, second = written(tmp_path / "first", "the first one"), written(tmp_path / "second", "the second one")
    assert "accepted" in b1.cli("admins", "add", "ben", "--new-password-file", first, *WAIT).stdout
    assert "is an admin of main already" in b1.cli("admins", "add", "ben", "--new-password-file", first, code=1).stderr
    assert re.search(r"^main +ben +since .* by admin$", b2.cli("admins", "list").stdout, re.MULTILINE)
    assert {each["name"] for each in b2.cli_json("admins", "list")["admins"]} >= {"admin", "ben"}
    ben: dict[str, Any] = {"user": "ben", "password": "the first one"}
    facts = b2.cli_json("admins", "passwd", "--new-password-file", second, *WAIT, **ben)
    assert facts["missing"] == []
    refused = b1.cli("config", "show", code=8, **ben)
    assert refused.stderr == "famulus: not_allowed: wrong name or password\n"
    wait_until(lambda: b1.admin.told("show"), 5, "that others are not delayed")
    assert "accepted" in b1.cli("admins", "passwd", "ben", "--new-password-file", first, *WAIT).stdout
    assert "that is you" in b2.cli("admins", "remove", "ben", code=1, **ben).stderr
    assert "accepted" in b2.cli("admins", "remove", "ben", *WAIT).stdout
    assert b1.cli("admins", "remove", "ben", code=1).stderr == "famulus: ben is not an admin of main\n"
    assert "not an admin of main" in b1.cli("admins", "passwd", "ben", "--new-password-file", first, code=1).stderr


def test_an_admin_of_one_family_does_not_touch_another(network: Network, tmp_path: Path) -> None:
    b1, l1 = network["b1"], network["l1"]
    lena: dict[str, Any] = {"user": "lena", "password": "password of lena"}
    file = written(tmp_path / "lena", "password of lena")
    b1.cli("admins", "add", "lena", "--family", "london", "--new-password-file", file, *WAIT)
    refused = l1.cli("config", "set", "family/main", "heartbeat_ms=900", code=8, **lena)
    assert refused.stderr == (
        "famulus: not_allowed: family/main belongs to family 'main', of which you are not an admin\n"
    )
    for command in (
        ("broker-admin", "disable", "b1"),
        ("admins", "remove", "admin", "--family", "main"),
        ("admins", "add", "lena", "--family", "main", "--new-password-file", file),
    ):
        facts = l1.cli_json(*command, code=8, **lena)
        assert "of which you are not an admin" in facts["reason"]
    assert "accepted" in l1.cli("config", "set", "family/london", "heartbeat_ms=900", *WAIT, **lena).stdout
    assert "belongs to family 'london'" in b1.cli("config", "set", "family/london", "heartbeat_ms=800", code=8).stderr


def test_a_wrong_password_delays_this_account_and_no_other(network: Network) -> None:
    b1 = network["b1"]
    for _ in range(2):
        refused = b1.cli_json("config", "show", user="eve", password="wrong", code=8)
        if "too many" in refused["reason"]:
            break
    begun = time.monotonic()
    refused = b1.cli("config", "show", user="eve", password="wrong", code=8)
    if time.monotonic() - begun < 0.9:
        assert re.fullmatch(
            r"famulus: not_allowed: (too many wrong passwords; try again in \d+ s|wrong name or password)\n",
            refused.stderr,
        )
    b1.cli("config", "get", "family/main")
    assert PASSWORD not in b1.broker.output


def test_without_a_broker_or_a_password(network: Network, tmp_path: Path) -> None:
    b1 = network["b1"]
    nobody = b1.cli_json("config", "show", "--broker", "127.0.0.1:1", "--timeout", "0.5", code=7)
    assert nobody["reason"].startswith("no broker answers at tcp://127.0.0.1:1")
    missing = b1.cli("config", "show", "--password-file", str(tmp_path / "none"), code=2)
    assert missing.stderr.count("\n") == 1
    assert "FAMULUS_ADMIN_PASSWORD" in b1.cli("config", "show", password="", code=2).stderr


# -- workers that are ignored ---------------------------------------------------------------------------------------


def test_a_worker_that_breaks_the_protocol_is_listed_and_forgiven(network: Network, raw: Callable[..., Raw]) -> None:
    b1 = network["b1"]
    assert b1.cli("errors", "list").stdout == "no worker is ignored\n"
    worker = raw(b1.backend)
    worker.become_worker("clumsy", "x")
    for _ in range(8):
        worker.send(b"", b"rubbish", b"")
    wait_until(lambda: b1.admin.told("errors")["workers"], 10, "that it is ignored")
    listed = b1.cli("errors", "list").stdout
    assert re.search(r"^clumsy +\d+ faults  (ignored for \d+ s more|not ignored now)$", listed, re.MULTILINE), listed
    # What it said after it was thrown out is its connection's.
    names = {facts["identity"] for facts in b1.cli_json("errors", "list")["workers"]}
    assert names - {"clumsy"} <= {name for name in names if re.fullmatch(r"127\.0\.0\.1:\d+", name)}
    assert b1.cli("errors", "clear", "nobody").stdout == "0 workers forgiven\n"
    for name in names:
        assert b1.cli_json("errors", "clear", name) == {"cleared": 1}
    wait_until(lambda: not b1.admin.told("errors")["workers"], 10, "that it is forgiven")
    raw(b1.backend).become_worker("clumsy", "x")
    assert b1.cli("errors", "clear").stdout == "0 workers forgiven\n"
