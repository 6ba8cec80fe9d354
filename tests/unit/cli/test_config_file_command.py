"""`famulus config export` and `import`: what a file holds, and what it does to a config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import Command, PlayedBroker

ECHO = "service/echo"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.json"


def change(file: Path, **keys: Any) -> None:
    """What a person does with an editor."""
    content = json.loads(file.read_text())
    content["keys"] |= keys
    file.write_text(json.dumps(content))


# -- export -------------------------------------------------------------------------------------------------------


def test_export_has_sorted_keys_and_no_hashes(broker: PlayedBroker, famulus: Command, file: Path) -> None:
    broker.put(ECHO, {"timeout_ms": 5000, "delivery": "at_least_once"})
    broker.put("service/gone", {})
    broker.delete("service/gone")
    done = famulus("config", "export", str(file))
    assert (done.code, done.out) == (0, f"3 keys and the names of 1 admins are in {file}\n")
    text = file.read_text()
    assert "hash" not in text
    content = json.loads(text)
    assert text == json.dumps(content, indent=2, sort_keys=True) + "\n"
    assert sorted(content["keys"]) == ["broker/b1", "family/main", ECHO]
    assert content["keys"][ECHO] == {"timeout_ms": 5000, "delivery": "at_least_once"}
    assert content["admins"] == ["admin/main/ann"]
    assert (content["network"], content["digest"]) == (broker.network, broker.edits.digest)


def test_equal_configs_give_equal_files(broker: PlayedBroker, famulus: Command, file: Path) -> None:
    famulus("config", "export", str(file))
    assert famulus("config", "export", "-").out == file.read_text()


def test_export_of_a_conflict_takes_the_head_that_counts_and_says_so(
    broker: PlayedBroker, famulus: Command, file: Path
) -> None:
    broker.put(ECHO, {"timeout_ms": 1}, parents=())
    broker.put(ECHO, {"timeout_ms": 2}, parents=())
    done = famulus("config", "export", str(file), "--json")
    assert ECHO in done.err
    assert done.json["conflicts"] == [ECHO]
    assert json.loads(file.read_text())["keys"][ECHO] == {"timeout_ms": 2}


def test_a_file_that_cannot_be_written_is_one_line(famulus: Command, tmp_path: Path) -> None:
    wrong = famulus("config", "export", str(tmp_path / "no" / "where.json"))
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "where.json" in wrong.err


# -- import -------------------------------------------------------------------------------------------------------


def test_what_was_exported_changes_nothing(broker: PlayedBroker, famulus: Command, file: Path) -> None:
    broker.put(ECHO, {"timeout_ms": 5000})
    famulus("config", "export", str(file))
    version = broker.edits.version
    done = famulus("config", "import", str(file), "--yes")
    assert done.code == 0
    assert "admin/main/ann is skipped: passwords are given by famulus admins add" in done.out
    assert "0 changes, 3 the same, 0 not in the file and left alone" in done.out
    assert "nothing was sent" in done.out
    assert broker.edits.version == version


def test_a_dry_run_shows_everything_and_changes_nothing(broker: PlayedBroker, famulus: Command, file: Path) -> None:
    broker.put(ECHO, {"timeout_ms": 5000})
    famulus("config", "export", str(file))
    change(file, **{ECHO: {"timeout_ms": 7000}, "service/new": {}})
    version = broker.edits.version
    done = famulus("config", "import", str(file), "--dry-run")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:3] == [ECHO, "  field       now   in the file", "  timeout_ms  5000  7000"]
    assert "service/new" in lines
    assert lines[-2:] == [
        "2 changes, 2 the same, 0 not in the file and left alone",
        "nothing was sent: a dry run",
    ]
    assert broker.requests[-1][1]["dry_run"] is True
    assert broker.edits.version == version
    told = famulus("config", "import", str(file), "--dry-run", "--json").json
    assert [each["key"] for each in told["changes"]] == [ECHO, "service/new"]
    assert told["changes"][0]["difference"] == [{"field": "timeout_ms", "seen": 5000, "now": 7000}]
    assert (told["dry_run"], told["skipped"], told["same"]) == (True, ["admin/main/ann"], 2)


def test_an_import_is_one_request_after_a_question(broker: PlayedBroker, famulus: Command, file: Path) -> None:
    broker.put(ECHO, {"timeout_ms": 5000})
    famulus("config", "export", str(file))
    change(file, **{ECHO: {"timeout_ms": 7000}, "service/new": {"max_attempts": 2}})
    broker.put("service/later", {})
    done = famulus("config", "import", str(file), stdin="y\n")
    assert done.code == 0
    assert "make these 2 changes? [y/N]" in done.err
    assert "1 not in the file and left alone" in done.out
    assert "accepted, seen by 1 of 1 brokers" in done.out
    assert broker.commands().count("edit") == 1
    assert broker.value(ECHO) == {"timeout_ms": 7000}
    assert broker.value("service/new") == {"max_attempts": 2}
    assert broker.value("service/later") == {}


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "what?\n"])
def test_silence_is_no_consent(broker: PlayedBroker, famulus: Command, file: Path, answer: str) -> None:
    famulus("config", "export", str(file))
    change(file, **{ECHO: {}})
    refused = famulus("config", "import", str(file), stdin=answer)
    assert refused.code == 1
    assert refused.err.endswith("famulus: nothing was changed\n")
    assert "edit" not in broker.commands()


def test_all_or_nothing_if_somebody_else_is_faster(broker: PlayedBroker, famulus: Command, file: Path) -> None:
    broker.put(ECHO, {"timeout_ms": 5000})
    famulus("config", "export", str(file))
    change(file, **{ECHO: {"timeout_ms": 7000}, "service/new": {}})
    broker.meanwhile = lambda: broker.put(ECHO, {"timeout_ms": 6000}, "ben")
    moved = famulus("config", "import", str(file), "--yes", "--json")
    assert moved.code == 5
    assert [each["key"] for each in moved.json["moved"]] == [ECHO]
    assert broker.value(ECHO) == {"timeout_ms": 6000}
    assert broker.heads("service/new") == []


def test_the_answer_of_an_import_in_json(broker: PlayedBroker, famulus: Command, file: Path) -> None:
    famulus("config", "export", str(file))
    change(file, **{ECHO: {}})
    done = famulus("config", "import", str(file), "--yes", "--json").json
    assert done["edits"] == broker.heads(ECHO)
    assert [each["key"] for each in done["changes"]] == [ECHO]


def test_an_import_may_end_a_conflict_but_not_by_the_way(broker: PlayedBroker, famulus: Command, file: Path) -> None:
    broker.put(ECHO, {"timeout_ms": 1}, parents=())
    broker.put(ECHO, {"timeout_ms": 2}, parents=())
    famulus("config", "export", str(file))
    same = famulus("config", "import", str(file), "--yes")
    assert f"{ECHO} stays in conflict" in same.out
    assert len(broker.heads(ECHO)) == 2
    change(file, **{ECHO: {"timeout_ms": 3}})
    assert f"{ECHO} (this ends its conflict)" in famulus("config", "import", str(file), "--yes").out
    assert len(broker.heads(ECHO)) == 1


def test_admins_in_a_file_are_skipped_even_if_somebody_wrote_a_hash(
    broker: PlayedBroker, famulus: Command, file: Path
) -> None:
    famulus("config", "export", str(file))
    change(file, **{"admin/main/eve": {"hash": "hers"}})
    done = famulus("config", "import", str(file), "--yes")
    assert "admin/main/eve is skipped" in done.out
    assert "hers" not in done.out + done.err
    assert broker.heads("admin/main/eve") == []


def test_values_that_would_be_ignored_need_force(broker: PlayedBroker, famulus: Command, file: Path) -> None:
    famulus("config", "export", str(file))
    change(file, **{ECHO: {"timeout_ms": -1}})
    refused = famulus("config", "import", str(file), "--yes")
    assert refused.code == 2
    assert "edit" not in broker.commands()
    assert famulus("config", "import", str(file), "--yes", "--force").code == 0


def test_a_file_of_another_network_needs_force(broker: PlayedBroker, famulus: Command, file: Path) -> None:
    famulus("config", "export", str(file))
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"network": "f" * 64, "keys": {ECHO: {}}}))
    refused = famulus("config", "import", str(file), "--yes")
    assert (refused.code, "another network (ffffffff)" in refused.err) == (2, True)
    assert famulus("config", "import", str(file), "--yes", "--force").code == 0


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2, "keys": {}}', '{"format": 1, "keys": [], "x": 1}', "\xff"]
)
def test_a_file_that_is_no_export_is_one_line(broker: PlayedBroker, famulus: Command, file: Path, text: str) -> None:
    file.write_bytes(text.encode("latin-1"))
    wrong = famulus("config", "import", str(file))
    assert (wrong.code, wrong.out, wrong.err.count("\n")) == (2, "", 1)
    assert "config.json: not an exported config" in wrong.err
    assert broker.requests == []


def test_a_file_that_is_not_there_and_one_from_a_pipe(broker: PlayedBroker, famulus: Command) -> None:
    assert famulus("config", "import", "/no/where").code == 2
    piped = json.dumps({"format": 1, "keys": {ECHO: {"timeout_ms": 4}}})
    assert famulus("config", "import", "-", "--yes", stdin=piped).code == 0
    assert broker.value(ECHO) == {"timeout_ms": 4}
