"""`famulus config` against a broker played by hand: each command, from what is typed to what holds afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.conftest import Command, Peer, PlayedBroker

from famulus.admin.ids import short

ECHO = "service/echo"


def in_conflict(broker: PlayedBroker) -> tuple[str, str]:
    """Two edits of `service/echo` that do not know each other; the second one counts, since it is later."""
    first = broker.put(ECHO, {"timeout_ms": 1000}, "ann", parents=())
    second = broker.put(ECHO, {"timeout_ms": 2000}, "ben", parents=())
    return first, second


# -- show and get -------------------------------------------------------------------------------------------------


def test_show_groups_keys_by_kind_and_names_who_set_them(broker: PlayedBroker, famulus: Command) -> None:
    broker.put(ECHO, {"timeout_ms": 5000, "delivery": "at_least_once"}, "ben")
    shown = famulus("config", "show")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0].startswith(f"network {short(broker.network)}, version 4, digest ")
    assert lines.index("family") < lines.index("broker") < lines.index("service") < lines.index("admin")
    assert "  service/echo  delivery=at_least_once timeout_ms=5000  2026-01-01 00:00:04Z ben" in lines
    assert "  b1  main  active  alive  same config" in lines
    assert "\x1b" not in shown.out


def test_show_marks_conflicts_and_says_what_is_wrong(broker: PlayedBroker, famulus: Command) -> None:
    in_conflict(broker)
    broker.put("family/main", {"fallback_families": ["paris"]})
    out = famulus("config", "show").out
    assert "! service/echo  timeout_ms=2000  conflict of 2 heads" in out.splitlines()
    assert "1 conflict, see famulus config conflicts:" in out
    assert "there is no family 'paris' to fall back on" in out


def test_show_asks_for_a_prefix_only(broker: PlayedBroker, famulus: Command) -> None:
    broker.put(ECHO, {})
    out = famulus("config", "show", "service/").out
    assert ECHO in out
    assert "family/main" not in out
    assert broker.requests == [("show", {"prefix": "service/"})]


def test_deleted_keys_are_shown_on_request(broker: PlayedBroker, famulus: Command) -> None:
    broker.put(ECHO, {})
    broker.delete(ECHO)
    assert ECHO not in famulus("config", "show").out
    assert "service/echo  deleted" in famulus("config", "show", "--deleted").out


def test_show_in_json_has_everything(broker: PlayedBroker, famulus: Command) -> None:
    first, second = in_conflict(broker)
    shown = famulus("config", "show", "--json").json
    assert shown["digest"] == broker.edits.digest
    assert shown["conflicts"] == [ECHO]
    assert {head["id"]: head["chosen"] for head in shown["keys"][ECHO]["heads"]} == {first: False, second: True}
    assert shown["keys"]["admin/main/ann"]["value"] == {"hash": "hidden"}
    assert shown["brokers"]["b1"]["same"] is True


def test_get_prints_the_value_as_json(broker: PlayedBroker, famulus: Command) -> None:
    broker.put(ECHO, {"timeout_ms": 5000})
    broker.put("service/echo2", {})
    assert famulus("config", "get", ECHO).out == '{\n  "timeout_ms": 5000\n}\n'
    got = famulus("config", "get", ECHO, "--json").json
    assert (got["key"], got["value"], got["conflict"]) == (ECHO, {"timeout_ms": 5000}, False)
    assert [head["id"] for head in got["heads"]] == broker.heads(ECHO)


def test_get_warns_of_a_conflict(broker: PlayedBroker, famulus: Command) -> None:
    in_conflict(broker)
    assert "in conflict" in famulus("config", "get", ECHO).err


@pytest.mark.parametrize("deleted", [False, True])
def test_get_of_what_is_not_set_fails(broker: PlayedBroker, famulus: Command, deleted: bool) -> None:
    if deleted:
        broker.put(ECHO, {})
        broker.delete(ECHO)
    got = famulus("config", "get", ECHO)
    assert (got.code, got.out, got.err) == (1, "", "famulus: service/echo is not set\n")


# -- set ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (['{"timeout_ms": 5000}'], {"timeout_ms": 5000}),
        (["timeout_ms=5000", "delivery=at_least_once"], {"timeout_ms": 5000, "delivery": "at_least_once"}),
    ],
)
def test_a_new_key_is_set(broker: PlayedBroker, famulus: Command, words: list[str], value: Any) -> None:
    done = famulus("config", "set", ECHO, *words)
    assert done.code == 0
    assert done.out == f"accepted, seen by 1 of 1 brokers (edit {short(broker.heads(ECHO)[0])})\n"
    assert done.err == ""
    assert broker.value(ECHO) == value


def test_single_fields_are_changed_and_the_others_stay(broker: PlayedBroker, famulus: Command) -> None:
    before = broker.put(ECHO, {"timeout_ms": 1000, "max_attempts": 5})
    assert famulus("config", "set", ECHO, "timeout_ms=5000").code == 0
    assert broker.value(ECHO) == {"timeout_ms": 5000, "max_attempts": 5}
    assert broker.requests[-1][1]["drafts"][0]["parents"] == [before]


def test_a_field_is_taken_away_and_one_inside_is_changed(broker: PlayedBroker, famulus: Command) -> None:
    broker.put("family/main", {"drain_ms": 5, "default_service": {"timeout_ms": 1, "max_attempts": 2}})
    assert famulus("config", "set", "family/main", "drain_ms=", "default_service.timeout_ms=9").code == 0
    assert broker.value("family/main") == {"default_service": {"timeout_ms": 9, "max_attempts": 2}}


def test_a_key_that_was_deleted_is_set_on_top_of_its_deletion(broker: PlayedBroker, famulus: Command) -> None:
    broker.put(ECHO, {"timeout_ms": 1})
    broker.delete(ECHO)
    assert famulus("config", "set", ECHO, "max_attempts=2").code == 0
    assert broker.value(ECHO) == {"max_attempts": 2}
    assert len(broker.heads(ECHO)) == 1


def test_what_is_so_already_is_not_sent(broker: PlayedBroker, famulus: Command) -> None:
    broker.put(ECHO, {"timeout_ms": 5000})
    done = famulus("config", "set", ECHO, "timeout_ms=5000")
    assert (done.code, done.out) == (0, "service/echo is that already; nothing was sent\n")
    assert famulus("config", "set", ECHO, "timeout_ms=5000", "--json").json == {"edits": []}
    assert "edit" not in broker.commands()


def test_the_answer_in_json(broker: PlayedBroker, famulus: Command) -> None:
    done = famulus("config", "set", ECHO, "timeout_ms=5000", "colour=red", "--json").json
    assert done["edits"] == broker.heads(ECHO)
    assert (done["version"], done["digest"]) == (broker.edits.version, broker.edits.digest)
    assert (done["seen"], done["brokers"]) == (1, 1)
    assert done["warnings"] == [{"key": ECHO, "sentence": "the field 'colour' is unknown and ignored"}]


def test_a_warning_comes_before_the_edit_and_once(broker: PlayedBroker, famulus: Command) -> None:
    done = famulus("config", "set", ECHO, "timeout_ms=5000", "colour=red")
    assert (done.code, done.err) == (0, "famulus: service/echo: the field 'colour' is unknown and ignored\n")


@pytest.mark.parametrize(
    ("key", "word"),
    [(ECHO, "timeout_ms=-1"), (ECHO, "hello"), ("shoe/size", "42"), ("broker_state/b1", "state=asleep")],
)
def test_what_would_be_ignored_needs_force(broker: PlayedBroker, famulus: Command, key: str, word: str) -> None:
    refused = famulus("config", "set", key, word)
    assert refused.code == 2
    assert "ignored" in refused.err
    assert refused.err.splitlines()[-1].endswith("--force sends it")
    assert "edit" not in broker.commands()
    assert famulus("config", "set", key, word, "--force").code == 0
    assert broker.value(key) is not None


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (['{"timeout_ms": 5000'], "looks like JSON"),
        (['{"a": 1, "a": 2}'], "twice"),
        (["two", "words"], "one value"),
        (["drain_ms=1", "and"], "one value"),
        (["9007199254740993"], "too large"),
        (["a=[[[[[[[[1]]]]]]]]"], "nested"),
        (["timeout_ms="], "no such field"),
    ],
)
def test_a_mistake_is_one_line(broker: PlayedBroker, famulus: Command, words: list[str], what: str) -> None:
    wrong = famulus("config", "set", ECHO, *words)
    assert (wrong.code, wrong.out, wrong.err.count("\n")) == (2, "", 1)
    assert what in wrong.err
    assert "edit" not in broker.commands()


def test_a_key_that_cannot_be_is_one_line(famulus: Command) -> None:
    assert famulus("config", "set", "", "5").code == 2
    assert famulus("config", "set", "service/\x07", "timeout_ms=5").code == 2


def test_passwords_are_not_set_by_hand(broker: PlayedBroker, famulus: Command) -> None:
    wrong = famulus("config", "set", "admin/main/ann", "hash=x")
    assert (wrong.code, broker.requests) == (2, [])
    assert "famulus admins" in wrong.err


# -- somebody else is faster --------------------------------------------------------------------------------------


def test_an_edit_on_top_of_what_moved_is_refused_with_the_difference(broker: PlayedBroker, famulus: Command) -> None:
    broker.put(ECHO, {"timeout_ms": 1000, "max_attempts": 2})
    broker.meanwhile = lambda: broker.put(ECHO, {"timeout_ms": 3000, "backlog_age_ms": 9}, "ben")
    moved = famulus("config", "set", ECHO, "timeout_ms=5000")
    assert (moved.code, moved.out) == (5, "")
    assert moved.err.splitlines() == [
        f"service/echo has moved on; its heads are {short(broker.heads(ECHO)[0])}",
        "  field           as seen  now",
        "  backlog_age_ms  -        9",
        "  max_attempts    2        -",
        "  timeout_ms      1000     3000",
        "famulus: conflict: the config has changed since you looked",
    ]
    assert broker.value(ECHO)["timeout_ms"] == 3000
    assert famulus("config", "set", ECHO, "timeout_ms=5000").code == 0


def test_what_moved_in_json(broker: PlayedBroker, famulus: Command) -> None:
    broker.put(ECHO, {"timeout_ms": 1000})
    broker.meanwhile = lambda: broker.delete(ECHO, "ben")
    moved = famulus("config", "set", ECHO, "timeout_ms=5000", "--json")
    assert moved.code == 5
    assert moved.json["outcome"] == "REJECTED"
    assert moved.json["reason"].startswith("conflict: ")
    (each,) = moved.json["moved"]
    assert (each["key"], each["heads"]) == (ECHO, broker.heads(ECHO))
    assert each["difference"] == [{"field": "", "seen": {"timeout_ms": 1000}}]


def test_heads_that_were_seen_earlier_can_be_named(broker: PlayedBroker, famulus: Command) -> None:
    seen = broker.put(ECHO, {"timeout_ms": 1000})
    assert famulus("config", "set", ECHO, "timeout_ms=2000", "--parents", seen[:6]).code == 0
    again = famulus("config", "set", ECHO, "timeout_ms=3000", "--parents", seen[:6])
    assert again.code == 5
    assert "timeout_ms  1000     2000" in again.err
    assert famulus("config", "unset", ECHO, "--parents", seen).code == 5


def test_a_head_that_this_broker_does_not_know_yet(broker: PlayedBroker, famulus: Command) -> None:
    broker.put(ECHO, {"timeout_ms": 1000})
    moved = famulus("config", "set", ECHO, "timeout_ms=2000", "--parents", "a" * 64)
    assert moved.code == 5
    assert "this broker does not know aaaaaaaa yet" in moved.err


def test_two_heads_can_be_named_either_way(broker: PlayedBroker, famulus: Command) -> None:
    first, second = in_conflict(broker)
    assert famulus("config", "set", ECHO, "timeout_ms=1", "--parents", f"{first[:8]},{second[:8]}").code == 0
    first, second = broker.heads(ECHO)[0], broker.put(ECHO, {}, parents=())
    assert famulus("config", "set", ECHO, "timeout_ms=2", "--parents", first, "--parents", second[:8]).code == 0
    assert len(broker.heads(ECHO)) == 1


# -- unset, history, diff, rollback -------------------------------------------------------------------------------


def test_unset_deletes_and_rollback_brings_it_back(broker: PlayedBroker, famulus: Command) -> None:
    old = broker.put(ECHO, {"timeout_ms": 1000})
    assert famulus("config", "unset", ECHO).code == 0
    assert broker.value(ECHO) is None
    again = famulus("config", "unset", ECHO)
    assert (again.code, again.err) == (1, "famulus: service/echo is not set\n")
    assert famulus("config", "rollback", ECHO, old[:6]).code == 0
    assert broker.value(ECHO) == {"timeout_ms": 1000}
    assert len(broker.edits.history(ECHO)) == 3


def test_rollback_to_a_deletion_and_to_what_holds(broker: PlayedBroker, famulus: Command) -> None:
    broker.put(ECHO, {"timeout_ms": 1000})
    gone = broker.delete(ECHO)
    last = broker.put(ECHO, {"timeout_ms": 2000})
    assert "nothing was sent" in famulus("config", "rollback", ECHO, last).out
    assert famulus("config", "rollback", ECHO, gone).code == 0
    assert broker.value(ECHO) is None


def test_rollback_that_was_overtaken(broker: PlayedBroker, famulus: Command) -> None:
    old = broker.put(ECHO, {"timeout_ms": 1000})
    broker.put(ECHO, {"timeout_ms": 2000})
    broker.meanwhile = lambda: broker.put(ECHO, {"timeout_ms": 3000})
    assert famulus("config", "rollback", ECHO, old).code == 5


def test_a_password_cannot_be_rolled_back(broker: PlayedBroker, famulus: Command) -> None:
    """Its hash is not told, and what is told in its place must not become one."""
    old = broker.heads("admin/main/ann")[0]
    broker.put("admin/main/ann", broker.value("admin/main/ann") | {"more": 1})
    refused = famulus("config", "rollback", "admin/main/ann", old)
    assert refused.code == 2
    assert "famulus admins passwd" in refused.err
    assert "edit" not in broker.commands()


def test_history_says_who_when_and_what(broker: PlayedBroker, famulus: Command) -> None:
    ids = [
        broker.put(ECHO, {"timeout_ms": 1000}, "ann"),
        broker.put(ECHO, {"timeout_ms": 2000, "max_attempts": 2}, "ben"),
        broker.delete(ECHO, "ann"),
    ]
    first, second = short(ids[0]), short(ids[1])
    assert famulus("config", "history", ECHO).out.splitlines() == [
        f"      {first}  2026-01-01 00:00:04Z  ann at b1  timeout_ms=1000",
        f"      {second}  2026-01-01 00:00:05Z  ben at b1  max_attempts: - -> 2, timeout_ms: 1000 -> 2000",
        f"head  {short(ids[2])}  2026-01-01 00:00:06Z  ann at b1  deleted",
    ]
    told = famulus("config", "history", ECHO, "--json").json
    assert [edit["id"] for edit in told["edits"]] == ids
    assert told["edits"][1]["parents"] == [ids[0]]
    nothing = famulus("config", "history", "service/none")
    assert (nothing.code, nothing.err) == (1, "famulus: there is no edit of service/none\n")


def test_diff_of_two_edits_of_one_and_of_none(broker: PlayedBroker, famulus: Command) -> None:
    first = broker.put(ECHO, {"timeout_ms": 1000})
    second = broker.put(ECHO, {"timeout_ms": 2000})
    third = broker.put(ECHO, {"timeout_ms": 3000})

    def rows(*ids: str) -> list[str]:
        return famulus("config", "diff", ECHO, *ids).out.splitlines()

    assert rows(first[:6], second[:6]) == [f"field       {short(first)}  {short(second)}", "timeout_ms  1000      2000"]
    assert rows(first) == [f"field       {short(first)}  {short(third)}", "timeout_ms  1000      3000"]
    assert rows() == [f"field       {short(second)}  {short(third)}", "timeout_ms  2000      3000"]
    assert rows(first, first) == ["no difference"]
    told = famulus("config", "diff", ECHO, second, first, "--json").json["differences"]
    changed = {"field": "timeout_ms", "seen": 2000, "now": 1000}
    assert told == [{"from": second, "to": first, "difference": [changed]}]
    assert famulus("config", "diff", ECHO, first, second, third).code == 2


def test_diff_of_a_conflict_and_of_a_first_edit(broker: PlayedBroker, famulus: Command) -> None:
    first, second = in_conflict(broker)
    assert f"{short(first)}  {short(second)}" in famulus("config", "diff", ECHO).out
    broker.put("service/new", {"timeout_ms": 1})
    assert famulus("config", "diff", "service/new").out.splitlines()[1] == "value  -       timeout_ms=1"


@pytest.mark.parametrize(
    ("wanted", "what"),
    [("{first:.5}", "too short"), ("123456", "no edit of"), ("zzzzzz", "is not the id"), ("", "is not the id")],
)
def test_an_abbreviation_that_will_not_do(broker: PlayedBroker, famulus: Command, wanted: str, what: str) -> None:
    first = broker.put(ECHO, {})
    wrong = famulus("config", "rollback", ECHO, wanted.format(first=first))
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert what in wrong.err


# -- conflicts ----------------------------------------------------------------------------------------------------


def test_conflicts_are_listed_with_their_heads(broker: PlayedBroker, famulus: Command) -> None:
    assert famulus("config", "conflicts").out == "no conflicts\n"
    first, second = in_conflict(broker)
    lines = famulus("config", "conflicts").out.splitlines()
    assert lines[0] == ECHO
    assert sorted(lines[1:]) == sorted(
        [
            f"  {short(first)}          2026-01-01 00:00:04Z  ann at b1  timeout_ms=1000",
            f"  {short(second)}  counts  2026-01-01 00:00:05Z  ben at b1  timeout_ms=2000",
        ]
    )
    told = famulus("config", "conflicts", "--json").json["conflicts"]
    assert sorted(head["id"] for head in told[ECHO]) == sorted([first, second])


def test_resolve_by_choosing_a_head(broker: PlayedBroker, famulus: Command) -> None:
    first, _ = in_conflict(broker)
    done = famulus("config", "resolve", ECHO, "--choose", first[:6])
    assert done.code == 0
    assert "ends the conflict of its 2 heads" in done.err
    assert broker.value(ECHO) == {"timeout_ms": 1000}
    assert len(broker.heads(ECHO)) == 1
    assert famulus("config", "conflicts", "--json").json == {"conflicts": {}}


def test_resolve_by_another_value(broker: PlayedBroker, famulus: Command) -> None:
    in_conflict(broker)
    assert famulus("config", "resolve", ECHO, "--value", '{"timeout_ms": 1500}').code == 0
    assert broker.value(ECHO) == {"timeout_ms": 1500}
    assert len(broker.heads(ECHO)) == 1


def test_resolve_of_an_old_edit_or_of_no_conflict(broker: PlayedBroker, famulus: Command) -> None:
    old = broker.put(ECHO, {"timeout_ms": 1})
    for words in (("--choose", old), ("--value", "{}")):
        calm = famulus("config", "resolve", ECHO, *words)
        assert (calm.code, calm.err) == (1, "famulus: service/echo is not in conflict\n")
    broker.put(ECHO, {"timeout_ms": 2}, parents=(old,))
    broker.put(ECHO, {"timeout_ms": 3}, parents=(old,))
    assert famulus("config", "resolve", ECHO, "--choose", old).code == 2


@pytest.mark.parametrize("words", [(), ("--choose", "abcdef", "--value", "{}")])
def test_resolve_wants_one_of_the_two(broker: PlayedBroker, famulus: Command, words: tuple[str, ...]) -> None:
    assert famulus("config", "resolve", ECHO, *words).code == 2
    assert broker.requests == []


def test_resolving_was_overtaken(broker: PlayedBroker, famulus: Command) -> None:
    first, second = in_conflict(broker)
    broker.meanwhile = lambda: broker.put(ECHO, {}, "ben", parents=(second,))
    assert famulus("config", "resolve", ECHO, "--choose", first).code == 5
    assert len(broker.heads(ECHO)) == 2


def test_a_conflict_of_passwords_is_resolved_by_deleting_or_by_a_new_one(
    broker: PlayedBroker, famulus: Command
) -> None:
    key = "admin/main/cy"
    head = broker.put(key, {"hash": "x"}, parents=())
    gone = broker.delete(key, parents=())
    refused = famulus("config", "resolve", key, "--choose", head)
    assert (refused.code, "famulus admins passwd" in refused.err) == (2, True)
    assert famulus("config", "resolve", key, "--value", '{"hash": "y"}').code == 2
    assert famulus("config", "resolve", key, "--choose", gone).code == 0
    assert broker.value(key) is None


# -- waiting ------------------------------------------------------------------------------------------------------


def with_peers(broker: PlayedBroker, **peers: Peer) -> None:
    for name, peer in peers.items():
        broker.put(f"broker/{name}", {"family": "main", "host": "h", "public_key": "k"})
        broker.peers[name] = peer


def test_an_edit_is_waited_for_until_all_that_are_alive_have_it(broker: PlayedBroker, famulus: Command) -> None:
    with_peers(broker, b2=Peer(questions_left=2), b3=Peer(alive=False))
    assert "seen by 1 of 3 brokers" in famulus("config", "set", ECHO, "timeout_ms=1").out
    done = famulus("config", "set", ECHO, "timeout_ms=2", "--wait", "20")
    assert done.code == 0
    assert done.out.splitlines()[0].startswith("accepted, seen by 2 of 3 brokers (edit ")
    assert done.out.splitlines()[1] == "not alive, so not waited for: b3"
    assert done.err == "famulus: accepted; waiting up to 20 s for b2\n"
    assert broker.commands().count("seen") == 3


def test_waiting_has_an_end(broker: PlayedBroker, famulus: Command) -> None:
    with_peers(broker, b2=Peer(questions_left=1000))
    done = famulus("config", "set", ECHO, "timeout_ms=2", "--wait", "0.3", "--json")
    assert done.code == 1
    assert (done.json["seen"], done.json["brokers"], done.json["missing"]) == (1, 2, ["b2"])
    assert done.err.endswith("after 0.3 s these have not seen it: b2\n")
    assert broker.value(ECHO) == {"timeout_ms": 2}
