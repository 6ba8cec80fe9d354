"""What admins can do, who may, and that no hash of a password ever leaves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.core.steward.conftest import PASSWORD, Network, admin_value, hashed

from famulus.broker import passwords
from famulus.cli.admin import words
from famulus.core.clock import NS_PER_S
from famulus.core.config.edit import SignedEdit
from famulus.core.config.schema import Admin
from famulus.core.steward import answers
from famulus.core.steward.commands import DRAFTS_MAX, HTTP_PORT, Answer, Commands, Unlocked
from famulus.core.steward.lockouts import Lockouts
from famulus.errors import SettingsError
from famulus.lab.sim.config.pen import broker_value, signer
from famulus.wire import headers, limits, reasons
from famulus.wire.peers import Beat

if TYPE_CHECKING:
    from tests.unit.core.steward.conftest import Member


class ToyPasswords:
    """Quick ones; and every check is noted."""

    def __init__(self) -> None:
        self.checked: list[str] = []

    def unlock(self, admin: Admin, password: str) -> Unlocked | None:
        self.checked.append(admin.hash)
        if admin.hash != hashed(password):
            return None
        return Unlocked(signer(admin.public_key) if admin.public_key else None)

    def new_admin(self, password: str) -> dict[str, str]:
        if not 1 <= len(password) <= passwords.PASSWORD_BYTES_MAX:
            raise SettingsError("password: too short, or too long")
        return admin_value(password)


class Desk:
    """Where admins ask b1; what they are told is checked for secrets, whatever they ask."""

    def __init__(self, network: Network, *, private: bool = True) -> None:
        self.network = network
        self.member: Member = network["b1"]
        self.passwords = ToyPasswords()
        self.ignored: list[dict[str, Any]] = []
        self.private = private
        self.source = "here"
        self.commands = Commands(self.member.core, self.passwords, "127.0.0.1:7105", Lockouts())

    def says(self, header: bytes, body: bytes) -> Answer:
        network = self.network
        names = ("identity", "faults", "ignored_s")
        self.member.core.errors = [(each[names[0]], each[names[1]], each[names[2]]) for each in self.ignored]
        answer = self.commands.run(
            header, body, network.now_ns, network.now_ms, private=self.private, source=self.source
        )
        for told in (answer.header, answer.body, answer.note.encode()):
            assert b"hash-of" not in told
            assert b"argon2" not in told
        assert len(answer.header) <= limits.HEADER_BYTES_MAX
        assert isinstance(headers.read(answer.header), headers.ManageResponse)
        json.loads(answer.body)
        return answer

    def asks(self, command: str, *, by: str = "ann", password: object = PASSWORD, **arguments: Any) -> Answer:
        header = headers.write("MANAGE", "REQUEST", username=by, command=command)
        return self.says(header, json.dumps({**arguments, "password": password}).encode())

    def told(self, command: str, **how: Any) -> Any:
        """The body of an OK; edits are added, as the shell does."""
        answer = self.asks(command, **how)
        header = headers.read(answer.header)
        assert isinstance(header, headers.ManageResponse)
        assert header.outcome == "OK", header.reason
        if answer.edits:
            assert self.member.core.add(answer.edits, logged=True) == ()
            self.member.disk += answer.edits
        return json.loads(answer.body)

    def refused(self, command: str, **how: Any) -> str:
        """The reason; nothing is to be written."""
        return reason_of(self.asks(command, **how))

    def puts(self, key: str, value: Any, parents: list[str] | None = None, **how: Any) -> Any:
        return self.told("edit", drafts=[self.draft(key, value, parents)], **how)

    def draft(self, key: str, value: Any, parents: list[str] | None = None) -> dict[str, Any]:
        """As an admin would write it who has just looked; a value of None is a DEL."""
        seen = [signed.id for signed in self.member.core.edits.heads(key)]
        op = "DEL" if value is None else "PUT"
        return {"key": key, "op": op, "value": value, "parents": seen if parents is None else parents}


def reason_of(answer: Answer) -> str:
    header = headers.read(answer.header)
    assert isinstance(header, headers.ManageResponse)
    assert header.outcome == "REJECTED"
    assert answer.edits == ()
    assert answer.forgive is None
    return header.reason


@pytest.fixture
def desk(networks: Callable[..., Network]) -> Desk:
    """b1 and b2 of family a, whose admin is ann, and b3 of family b, whose admin is ben."""
    network = networks("b1", "b2", "b3", b3="b")
    network["b1"].edits("admin/b/ben", {"hash": hashed("bens own")})
    network.later(2000)
    return Desk(network)


# -- who asks -----------------------------------------------------------------------------------------------------

COMMANDS: dict[str, dict[str, Any]] = {
    "show": {},
    "history": {"key": "family/a"},
    "seen": {"edits": []},
    "errors": {},
    "errors_clear": {},
    "edit": {"drafts": [{"key": "service/echo", "op": "PUT", "value": {}, "parents": []}]},
    "set_password": {"family": "a", "name": "new", "new_password": "pw", "parents": []},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_needs_the_password(desk: Desk, command: str) -> None:
    assert desk.refused(command, password="wrong", **COMMANDS[command]) == "not_allowed: wrong name or password"
    desk.network.now_ns += 2 * NS_PER_S
    desk.told(command, **COMMANDS[command])


@pytest.mark.parametrize("password", [None, 7, "", ["correct horse"], {"a": 1}, True, PASSWORD.upper(), PASSWORD + " "])
def test_what_is_not_the_password_is_none(desk: Desk, password: object) -> None:
    assert desk.refused("show", password=password) == "not_allowed: wrong name or password"


def test_a_missing_password_is_no_guess_and_keeps_nobody_out(desk: Desk) -> None:
    header = headers.write("MANAGE", "REQUEST", username="ann", command="show")
    assert reason_of(desk.says(header, b"{}")) == "not_allowed: wrong name or password"
    assert desk.passwords.checked == []
    desk.told("show")


def test_an_unknown_name_takes_the_same_path(desk: Desk) -> None:
    """Nobody learns from the answer, nor from how long it takes, which names there are."""
    known, unknown = desk.asks("show", password="wrong"), desk.asks("show", by="nobody", password="wrong")
    assert (known.header, known.body) == (unknown.header, unknown.body)
    assert len(desk.passwords.checked) == 2, "one check for each of them"


def test_the_hash_that_unknown_names_are_checked_against_takes_as_long_as_any_other(desk: Desk) -> None:
    desk.asks("show", by="nobody", password="wrong")
    (nobodys,) = desk.passwords.checked
    real = passwords.new_admin("real")["hash"]
    seconds = {}
    for each in (nobodys, real):
        begun = time.process_time()
        for _ in range(3):
            assert passwords.derive_key(each, "wrong") is not None
        seconds[each] = time.process_time() - begun
    assert seconds[real] / 3 < seconds[nobodys] < seconds[real] * 3
    assert nobodys.split("$")[:4] == real.split("$")[:4], "the same costs"


def test_after_a_wrong_password_one_has_to_wait_even_with_the_right_one(desk: Desk) -> None:
    desk.refused("show", password="wrong")
    assert desk.refused("show") == "not_allowed: too many wrong passwords; try again in 1 s"
    assert len(desk.passwords.checked) == 1, "while one waits, nothing is looked at"
    desk.network.now_ns += NS_PER_S
    desk.told("show")


def test_at_the_http_port_one_waits_by_the_address_that_one_comes_from(desk: Desk) -> None:
    desk.source = HTTP_PORT
    desk.told("show", client="10.0.0.8")
    desk.refused("show", client="10.0.0.9", password="wrong")
    assert "too many wrong passwords" in desk.refused("show", client="10.0.0.9")
    desk.told("show", client="10.0.0.7")
    for nonsense in ({"a": 1}, None, "x" * 1000):
        desk.told("show", client=nonsense)


def test_elsewhere_nobody_is_believed_about_it(desk: Desk) -> None:
    desk.refused("show", client="10.0.0.9", password="wrong")
    assert "too many wrong passwords" in desk.refused("show", client="10.0.0.8")


def test_every_failure_doubles_the_wait_and_a_success_ends_it(desk: Desk) -> None:
    for seconds in (1, 2, 4):
        assert "wrong name" in desk.refused("show", password="wrong")
        assert f"try again in {seconds} s" in desk.refused("show", password="wrong")
        desk.network.now_ns += seconds * NS_PER_S
    desk.told("show")


def test_strangers_who_guess_do_not_keep_an_admin_out(desk: Desk) -> None:
    """Neither from elsewhere, nor from where the admin has been before."""
    for _ in range(20):
        desk.source = "elsewhere"
        desk.refused("show", password="wrong")
    assert desk.refused("show").startswith("not_allowed: too many")
    desk.source = "here"
    desk.told("show")
    for _ in range(20):
        assert desk.refused("show", password="wrong") == "not_allowed: wrong name or password"
    desk.told("show")


def test_why_somebody_is_not_heard_is_told_to_the_journal(desk: Desk) -> None:
    assert desk.asks("show", password="wrong").not_heard == b"wrong_password"
    assert desk.asks("show").not_heard == b"wrong_password", "it has to wait"
    desk.network.now_ns += NS_PER_S
    assert Desk(desk.network, private=False).asks("show").not_heard == b"wrong_place"
    assert desk.asks("show").not_heard == b""
    assert desk.asks("no such command").not_heard == b"", "an admin may be wrong"


def test_one_admins_failures_are_not_anothers(desk: Desk) -> None:
    desk.refused("show", password="wrong")
    desk.told("show", by="ben", password="bens own")


def test_who_can_be_overheard_is_not_asked(desk: Desk) -> None:
    far = Desk(desk.network, private=False)
    assert far.refused("show") == (
        "not_allowed: a password would be readable on its way: "
        "ask on the broker's own machine, with --broker 127.0.0.1:7105"
    )
    assert far.passwords.checked == []


def test_an_admin_of_two_families_with_one_password_has_the_rights_of_both(desk: Desk) -> None:
    desk.told("set_password", by="ben", password="bens own", family="b", name="ann", new_password=PASSWORD, parents=[])
    desk.puts("family/a", {"heartbeat_ms": 500})
    desk.puts("family/b", {"heartbeat_ms": 500})


def test_an_admin_of_two_families_has_the_rights_of_those_whose_password_it_gave(desk: Desk) -> None:
    desk.told("set_password", by="ben", password="bens own", family="b", name="ann", new_password="other", parents=[])
    desk.puts("family/a", {"heartbeat_ms": 500})
    refusal = desk.refused("edit", drafts=[desk.draft("family/b", {})])
    assert refusal == "not_allowed: family/b belongs to family 'b', of which you are not an admin"
    desk.puts("family/b", {"heartbeat_ms": 500}, password="other")


def test_an_admin_who_was_removed_is_none_any_more(desk: Desk) -> None:
    desk.told("set_password", family="a", name="amy", new_password="amys", parents=[])
    desk.puts("admin/a/ann", None, by="amy", password="amys")
    assert desk.refused("show") == "not_allowed: wrong name or password"


# -- looking ------------------------------------------------------------------------------------------------------


def test_show_tells_what_holds(desk: Desk) -> None:
    core = desk.member.core
    shown = desk.told("show")
    assert (shown["network"], shown["broker"]) == (desk.network.id, "b1")
    assert (shown["version"], shown["digest"]) == (core.edits.version, core.edits.digest)
    assert sorted(shown["keys"]) == core.edits.keys()
    (head,) = core.edits.heads("family/a")
    assert shown["keys"]["family/a"] == {
        "op": "PUT",
        "value": {},
        "heads": [
            {
                "id": head.id,
                "op": "PUT",
                "value": {},
                "author": "ann",
                "broker": "b1",
                "hlc": head.edit.hlc,
                "chosen": True,
            }
        ],
    }
    assert shown["conflicts"] == []
    assert shown["warnings"] == []


def test_show_of_a_part(desk: Desk) -> None:
    assert sorted(desk.told("show", prefix="family/")["keys"]) == ["family/a", "family/b"]
    assert desk.told("show", prefix="nothing")["keys"] == {}


def test_show_tells_of_deleted_keys_conflicts_and_warnings(desk: Desk) -> None:
    network = desk.network
    network.cut = {frozenset({"b1", "b2"}), frozenset({"b2", "b3"})}
    desk.puts("service/echo", {"timeout_ms": 1})
    network.now_ns += NS_PER_S
    network["b2"].edits("service/echo", {"timeout_ms": 2})
    network.cut.clear()
    network.later(2000)
    desk.puts("service/gone", {})
    desk.puts("service/gone", None)
    desk.puts("service/odd", {"colour": "red"})
    shown = desk.told("show")
    assert shown["conflicts"] == ["service/echo"]
    heads = shown["keys"]["service/echo"]["heads"]
    assert sorted(head["value"]["timeout_ms"] for head in heads) == [1, 2]
    assert [head["value"] for head in heads if head["chosen"]] == [shown["keys"]["service/echo"]["value"]]
    assert (shown["keys"]["service/gone"]["op"], shown["keys"]["service/gone"]["value"]) == ("DEL", None)
    assert [(each["key"], "colour" in each["sentence"]) for each in shown["warnings"]] == [("service/odd", True)]
    desk.puts("service/echo", {"timeout_ms": 3}, [head["id"] for head in heads])
    assert desk.told("show")["conflicts"] == []


def test_show_tells_which_brokers_are_there_and_in_step(desk: Desk) -> None:
    network = desk.network
    network.cut = {frozenset({"b1", "b3"}), frozenset({"b2", "b3"})}
    desk.puts("broker_state/b2", {"state": "draining"})
    network.later(4000)
    brokers = desk.told("show")["brokers"]
    assert sorted(brokers) == ["b1", "b2", "b3"]
    core = desk.member.core
    here = {"version": core.edits.version, "digest": core.edits.digest, "same": True}
    assert brokers["b1"] == {"family": "a", "state": "active", "alive": True, "peer": True, **here}
    assert brokers["b2"] == {"family": "a", "state": "draining", "alive": True, "peer": True, **here}
    assert (brokers["b3"]["family"], brokers["b3"]["alive"], brokers["b3"]["same"]) == ("b", False, False)


def test_history_tells_all_edits_of_a_key_each_after_its_parents(desk: Desk) -> None:
    ids = [desk.puts("service/echo", {"timeout_ms": number})["edits"][0] for number in (1, 2)]
    ids += desk.puts("service/echo", None)["edits"]
    history = desk.told("history", key="service/echo")
    assert history["key"] == "service/echo"
    assert [each["id"] for each in history["edits"]] == ids
    assert [each["parents"] for each in history["edits"]] == [[], ids[:1], ids[1:2]]
    assert [each["op"] for each in history["edits"]] == ["PUT", "PUT", "DEL"]
    assert {each["author"] for each in history["edits"]} == {"ann"}
    assert all(abs(each["time_ms"] - desk.network.now_ms) < 1000 for each in history["edits"])
    assert desk.told("history", key="no/such")["edits"] == []
    assert desk.told("history")["edits"] == []


def test_seen_tells_who_has_it(desk: Desk) -> None:
    network = desk.network
    network.publications = False
    edits = desk.puts("service/echo", {})["edits"]
    assert desk.told("seen", edits=edits) == {"seen": 1, "brokers": 3, "missing": ["b2", "b3"]}
    network.cut = {frozenset({"b1", "b3"}), frozenset({"b2", "b3"})}
    network.later(2000)
    assert desk.told("seen", edits=edits) == {"seen": 2, "brokers": 3, "missing": ["b3"]}
    network.cut.clear()
    network.later(2000)
    assert desk.told("seen", edits=edits) == {"seen": 3, "brokers": 3, "missing": []}


def test_seen_of_an_edit_that_is_not_here(desk: Desk) -> None:
    assert desk.refused("seen", edits=["00" * 32]).startswith("no_service: no such edit")


def test_the_answer_to_an_edit_has_the_digest_that_holds_then(desk: Desk) -> None:
    draft = {"key": "service/echo", "op": "PUT", "value": {}, "parents": []}
    before = desk.told("show")["digest"]
    dry = desk.told("edit", drafts=[draft], dry_run=True)
    assert dry["digest"] == before
    answer = desk.asks("edit", drafts=[draft])
    told = json.loads(answer.body)
    assert told["digest"] != before
    desk.member.core.add(answer.edits)
    assert told["digest"] == desk.member.core.edits.digest == desk.told("show")["digest"]


def test_brokers_that_are_no_peers_are_counted_and_not_known_to_be_alive(desk: Desk) -> None:
    desk.member.edits("broker/b1", broker_value(desk.network.pens["b1"], peers=["b2"]))
    desk.network.settle()
    desk.network.later(2000)
    shown = desk.told("show")["brokers"]
    assert {name: facts["alive"] for name, facts in shown.items()} == {"b1": True, "b2": True, "b3": False}
    assert desk.told("seen", edits=[]) == {"seen": 2, "brokers": 3, "missing": ["b3"]}
    assert desk.network.digests() == {desk.member.core.edits.digest}, "b3 has it by way of b2"


def test_workers_that_the_config_names_are_listed_and_cleared_by_an_edit(desk: Desk) -> None:
    desk.member.edits("family/a", {"error_workers": ["w1", "w2"], "heartbeat_ms": 700})
    desk.member.edits("broker/b1", broker_value(desk.network.pens["b1"], error_workers=["w1"]))
    desk.ignored = [{"identity": "w3", "faults": 4, "ignored_s": 2}]
    assert desk.told("errors")["workers"] == [
        {"identity": "w1", "by": "family/a"},
        {"identity": "w2", "by": "family/a"},
        {"identity": "w1", "by": "broker/b1"},
        *desk.ignored,
    ]
    answer = desk.asks("errors_clear", identity="w1")
    assert answer.forgive == "w1"
    assert json.loads(answer.body) == {"cleared": 1, "edits": [signed.id for signed in answer.edits]}
    assert desk.member.core.add(answer.edits) == ()
    config = desk.member.core.config
    assert config.families["a"].error_workers == ("w2",)
    assert config.families["a"].heartbeat_ms == 700
    assert config.brokers["b1"].error_workers == ()
    answer = desk.asks("errors_clear")
    assert (json.loads(answer.body)["cleared"], answer.forgive) == (2, "")
    desk.member.core.add(answer.edits)
    assert desk.told("errors")["workers"] == desk.ignored


def test_who_deletes_a_broker_revokes_its_key(desk: Desk) -> None:
    network, key = desk.network, desk.network.pens["b2"].public_key
    (before,) = network["b2"].edits("service/echo", {"timeout_ms": 5})
    network.settle()
    version = desk.member.core.edits.version
    told = desk.puts("broker/b2", None)
    assert (len(told["edits"]), told["version"]) == (1, version + 2)
    assert told["digest"] == desk.member.core.edits.digest
    config = desk.member.core.config
    assert config.revoked[f"{key}/0"].identity == "b2"
    assert config.revoked[f"{key}/0"].kept == (before.id[:24],)
    # b3 has not heard of it, and takes an edit from b2; then all of them meet.
    network.cut = {frozenset({"b1", "b2"}), frozenset({"b1", "b3"})}
    (late,) = network["b2"].edits("service/echo", {"timeout_ms": 6})
    network.settle()
    assert late.id in network["b3"].core.edits
    network.cut = {frozenset({"b1", "b2"})}
    network.later(2000)
    for name in ("b1", "b3"):
        core = network[name].core
        assert late.id in core.edits
        assert core.config.services["echo"].timeout_ms == 5
        assert "b2" not in core.peers
    assert [each["void"] for each in desk.told("history", key="service/echo")["edits"]] == [False, True]
    assert any("does not count" in each["sentence"] for each in desk.told("show")["warnings"])


def test_letters_of_a_broker_that_was_forgotten_are_refused(desk: Desk) -> None:
    desk.puts("broker/b2", None)
    core = desk.member.core
    refused, version = core.refused, core.edits.version
    network = desk.network
    network["b2"].edits("service/echo", {"timeout_ms": 6})
    network["b1"].hears(network["b2"].core.post.write(Beat(1, "", "active", {})))
    assert (core.refused, core.edits.version) == (refused + 1, version)


def test_a_broker_that_forgets_itself_revokes_nothing(desk: Desk) -> None:
    """Its own key signs the edit."""
    desk.puts("broker/b1", None)
    assert desk.member.core.config.revoked == {}


def test_a_key_that_another_broker_has_is_not_revoked(desk: Desk) -> None:
    """Somebody copied a value, noticed it, and deletes the copy."""
    desk.puts("broker/copy", broker_value(desk.network.pens["b2"]))
    desk.puts("broker/copy", None)
    assert desk.member.core.config.revoked == {}
    assert "b2" in desk.member.core.config.brokers


def test_a_revocation_belongs_to_the_family_of_the_broker(desk: Desk) -> None:
    key = desk.network.pens["b3"].public_key
    value = {"identity": "b3", "family": "a", "kept": []}
    assert desk.refused("edit", drafts=[desk.draft(f"revoked/{key}/0", value)]).startswith("not_allowed")


def test_errors_are_what_the_dispatcher_says(desk: Desk) -> None:
    desk.ignored = [{"identity": "w1", "faults": 4, "ignored_s": 2}]
    assert desk.told("errors") == {"workers": desk.ignored}


def test_errors_are_cleared_for_one_or_all(desk: Desk) -> None:
    desk.ignored = [{"identity": name, "faults": 4, "ignored_s": 2} for name in ("w1", "w2")]
    for identity, name, count in [("w1", "w1", 1), ("w9", "w9", 0), (None, "", 2)]:
        answer = desk.asks("errors_clear", identity=identity)
        assert answer.forgive == name
        assert answers.read(answers.Cleared, answer.body).cleared == count
    assert desk.asks("errors_clear").forgive == ""


def test_what_is_no_name_clears_nothing(desk: Desk) -> None:
    """Least of all everything."""
    assert desk.refused("errors_clear", identity=7).startswith("bad_header")


def test_answers_are_what_admins_commands_expect(desk: Desk) -> None:
    desk.puts("service/odd", {"colour": "red"})
    shown = answers.read_shown(desk.asks("show").body)
    assert shown.brokers["b2"].alive
    assert answers.read_history(desk.asks("history", key="family/a").body).ids == [shown.keys["family/a"].heads[0].id]
    edited = desk.asks("edit", drafts=[desk.draft("service/x", {"colour": 1})])
    assert answers.read(answers.Accepted, edited.body).warnings[0].key == "service/x"
    assert answers.read(answers.SeenBy, desk.asks("seen", edits=[]).body).brokers == 3
    assert answers.read(answers.ErrorWorkers, desk.asks("errors").body).workers == ()
    moved = desk.asks("edit", drafts=[desk.draft("service/odd", {}, [])])
    assert answers.read_moved(moved.body)[0].key == "service/odd"


# -- changing -----------------------------------------------------------------------------------------------------


def test_an_edit_is_given_to_the_shell_and_is_not_part_of_the_config_before(desk: Desk) -> None:
    core = desk.member.core
    version = core.edits.version
    answer = desk.asks("edit", drafts=[desk.draft("service/echo", {"timeout_ms": 5}), desk.draft("service/more", {})])
    assert core.edits.version == version
    assert [signed.edit.key for signed in answer.edits] == ["service/echo", "service/more"]
    assert {(signed.edit.author, signed.edit.broker) for signed in answer.edits} == {("ann", "b1")}
    assert json.loads(answer.body) == {
        "edits": [signed.id for signed in answer.edits],
        "version": version + 2,
        "digest": core.edits.buckets.digest_with(signed.id for signed in answer.edits),
        "seen": 1,
        "brokers": 3,
        "warnings": [],
    }
    core.add(answer.edits, logged=True)
    assert core.edits.version == version + 2
    assert core.edits.digest == json.loads(answer.body)["digest"]
    assert core.config.services["echo"].timeout_ms == 5


def test_a_dry_run_tells_the_same_and_does_nothing(desk: Desk) -> None:
    core = desk.member.core
    version = core.edits.version
    answer = desk.asks("edit", drafts=[desk.draft("service/echo", {"colour": "red"})], dry_run=True)
    assert answer.edits == ()
    told = json.loads(answer.body)
    assert (told["version"], told["seen"], len(told["edits"])) == (version, 0, 1)
    assert told["digest"] == core.edits.digest
    assert "colour" in told["warnings"][0]["sentence"]
    assert core.edits.version == version
    assert desk.refused("edit", drafts=[desk.draft("family/b", {})], dry_run=True).startswith("not_allowed")
    assert desk.refused("edit", drafts=[desk.draft("family/a", {}, [])], dry_run=True).startswith("conflict")


def test_warnings_say_what_will_be_ignored(desk: Desk) -> None:
    told = desk.puts("service/echo", {"timeout_ms": "soon"})
    assert [each["key"] for each in told["warnings"]] == ["service/echo"]
    assert "timeout_ms" in told["warnings"][0]["sentence"]
    assert desk.puts("no/such/key", {})["warnings"][0]["sentence"].startswith("no such key is known")
    assert desk.puts("service/echo", None)["warnings"] == []


def test_whoever_looked_before_somebody_else_was_faster_is_told_what_changed(desk: Desk) -> None:
    (first,) = desk.puts("service/echo", {"timeout_ms": 1, "max_attempts": 2})["edits"]
    (second,) = desk.puts("service/echo", {"timeout_ms": 5, "max_attempts": 2})["edits"]
    answer = desk.asks("edit", drafts=[desk.draft("service/echo", {"timeout_ms": 7}, [first])])
    assert reason_of(answer) == "conflict: the config has changed since you looked"
    assert json.loads(answer.body) == {
        "moved": [
            {
                "key": "service/echo",
                "heads": [second],
                "difference": [{"field": "timeout_ms", "seen": 1, "now": 5}],
                "unknown": [],
            }
        ]
    }


def test_of_edits_that_belong_together_all_hold_or_none(desk: Desk) -> None:
    fine = desk.draft("service/fine", {})
    others: list[tuple[dict[str, Any], str]] = [
        (desk.draft("service/new", {}, ["00" * 32]), "conflict"),
        (desk.draft("family/b", {}), "not_allowed"),
        (desk.draft("service/new", 2**60), "bad_edit"),
        (desk.draft("service/" + "x" * 1000, {}), "bad_edit"),
        (desk.draft("", {}), "bad_edit"),
        (desk.draft("service/a\nb", {}), "bad_edit"),
        (desk.draft("service/new", "x" * 70_000), "too_large"),
        ({"key": "service/new", "op": "DEL", "value": {}, "parents": []}, "bad_edit"),
        ({"key": "service/new", "op": "SET", "value": {}, "parents": []}, "bad_header"),
        ({"key": "service/new", "op": "PUT", "value": {}}, "bad_header"),
        ({"key": 7, "op": "PUT", "value": {}, "parents": []}, "bad_header"),
        ({"key": "service/new", "op": "PUT", "value": {}, "parents": ["x", 7]}, "bad_header"),
        (fine, "bad_header"),
    ]
    for draft, code in others:
        assert reasons.code_of(desk.refused("edit", drafts=[fine, draft])) == code, draft
    assert "service/fine" not in desk.told("show")["keys"]


def test_parents_that_are_rubbish_are_a_conflict(desk: Desk) -> None:
    answer = desk.asks("edit", drafts=[desk.draft("service/new", {}, ["rubbish", "é"])])
    assert reason_of(answer).startswith("conflict")
    assert json.loads(answer.body)["moved"][0]["unknown"] == ["rubbish", "é"]


@pytest.mark.parametrize("drafts", [[], None, {}, "x", 7, [7], [[]], [{}]])
def test_drafts_that_are_none(desk: Desk, drafts: object) -> None:
    assert desk.refused("edit", drafts=drafts).startswith("bad_header")


def test_too_many_drafts_are_refused_before_they_cost_anything(desk: Desk) -> None:
    drafts = [{"key": f"service/{number}", "op": "PUT", "value": {}, "parents": []} for number in range(DRAFTS_MAX + 1)]
    assert desk.refused("edit", drafts=drafts).startswith("bad_header: an edit has 1 to")
    assert desk.refused("edit").startswith("bad_header")


def test_as_many_drafts_as_may_be_do_not_take_long(desk: Desk) -> None:
    """A steward that says nothing for three seconds is taken for lost by its peers."""
    drafts = [{"key": f"service/{number}", "op": "PUT", "value": {}, "parents": []} for number in range(DRAFTS_MAX)]
    begun = time.process_time()
    assert len(desk.told("edit", drafts=drafts)["edits"]) == DRAFTS_MAX
    assert time.process_time() - begun < 10
    assert desk.member.core.config.services.keys() == {str(number) for number in range(DRAFTS_MAX)}


def test_a_command_that_nobody_knows(desk: Desk) -> None:
    assert desk.refused("reboot") == "unknown_request: there is no command 'reboot'"


# -- passwords ----------------------------------------------------------------------------------------------------


def test_a_password_is_set_and_counts_from_then_on(desk: Desk) -> None:
    parents = [signed.id for signed in desk.member.core.edits.heads("admin/a/ann")]
    desk.told("set_password", family="a", name="ann", new_password="another", parents=parents)
    assert desk.refused("show").startswith("not_allowed")
    desk.network.now_ns += NS_PER_S
    desk.told("show", password="another")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"new_password": ""}, "bad_header"),
        ({"new_password": "x" * 2000}, "bad_header"),
        ({"new_password": 7}, "bad_header"),
        ({"new_password": None}, "bad_header"),
        ({"name": ""}, "bad_header"),
        ({"name": "a/b"}, "bad_header"),
        ({"name": "x" * 300}, "bad_header"),
        ({"name": "a\nb"}, "bad_edit"),
        ({"family": ""}, "bad_header"),
        ({"family": "b"}, "not_allowed"),
        ({"parents": ["00" * 32]}, "conflict"),
        ({"parents": 7}, "bad_header"),
    ],
)
def test_passwords_and_names_that_cannot_be(desk: Desk, arguments: dict[str, Any], code: str) -> None:
    whole = {"family": "a", "name": "new", "new_password": "pw", "parents": [], **arguments}
    assert reasons.code_of(desk.refused("set_password", **whole)) == code


def test_hashes_are_hidden_wherever_a_key_is_told(desk: Desk) -> None:
    """That no answer holds one is looked at in every test here; these are the answers with admins in them."""
    parents = [signed.id for signed in desk.member.core.edits.heads("admin/a/ann")]
    assert desk.told("show")["keys"]["admin/a/ann"]["value"] == {"hash": "hidden"}
    assert desk.told("history", key="admin/a/ann")["edits"][0]["value"] == {"hash": "hidden"}
    desk.puts("admin/a/ann", {"hash": hashed(PASSWORD), "since": "today"})
    assert desk.told("show")["keys"]["admin/a/ann"]["value"] == {"hash": "hidden", "since": "hidden"}
    moved = desk.asks("edit", drafts=[desk.draft("admin/a/ann", {"hash": hashed("x")}, parents)])
    assert reason_of(moved).startswith("conflict")
    assert json.loads(moved.body)["moved"][0]["difference"] == []


@pytest.mark.parametrize(
    "value",
    [
        hashed("x"),
        [hashed("x")],
        {"hash": [hashed("x")]},
        {"hash": {"old": hashed("x")}},
        {"HASH": hashed("x")},
        {"old": {"hash": hashed("x")}},
    ],
)
def test_hashes_are_hidden_in_values_that_nobody_understands_too(desk: Desk, value: Any) -> None:
    """As somebody may write them by hand, or a newer version."""
    for key in ("admin/a/odd", "admin/odd"):
        (first,) = desk.puts(key, value)["edits"]
        desk.told("show")
        desk.told("history", key=key)
        desk.puts(key, {"hash": hashed("y")})
        assert desk.refused("edit", drafts=[desk.draft(key, value, [first])]).startswith("conflict")


# -- a broker that is disabled --------------------------------------------------------------------------------------


@pytest.fixture
def disabled(desk: Desk) -> Desk:
    desk.puts("broker_state/b1", {"state": "disabled"})
    return desk


def test_a_disabled_broker_only_lets_itself_be_enabled(disabled: Desk) -> None:
    own = disabled.draft("broker_state/b1", {"state": "active"})
    for drafts in (
        [disabled.draft("service/echo", {})],
        [disabled.draft("broker_state/b2", {"state": "disabled"})],
        [own, disabled.draft("service/echo", {})],
    ):
        assert disabled.refused("edit", drafts=drafts).startswith("disabled: this broker is disabled")
    password = {"family": "a", "name": "new", "new_password": "pw", "parents": []}
    assert disabled.refused("set_password", **password).startswith("disabled")
    disabled.told("edit", drafts=[own])
    disabled.puts("service/echo", {})


def test_a_disabled_broker_still_tells_what_holds(disabled: Desk) -> None:
    assert disabled.told("show")["brokers"]["b1"]["state"] == "disabled"
    assert disabled.told("history", key="broker_state/b1")["edits"]


def test_a_broker_that_was_removed_accepts_no_edits(desk: Desk) -> None:
    desk.puts("broker/b1", None)
    assert desk.refused("edit", drafts=[desk.draft("service/echo", {})]).startswith(
        "disabled: this broker is not known"
    )


# -- anything at all ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"7", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"password": \xff}']
)
def test_a_body_that_is_no_object(desk: Desk, body: bytes) -> None:
    header = headers.write("MANAGE", "REQUEST", username="ann", command="show")
    assert reason_of(desk.says(header, body)) == "bad_header: the body is not a JSON object"
    assert desk.passwords.checked == []


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b"rubbish", "bad_header"),
        (b"", "bad_header"),
        (headers.write("TASK", "REQUEST", service="echo"), "unknown_request"),
        (headers.write("MANAGE", "RESPONSE"), "unknown_request"),
        (headers.write("MANAGE", "REQUEST", command="show"), "bad_header"),
        (headers.write("MANAGE", "REQUEST", username="", command="show"), "bad_header"),
    ],
)
def test_a_header_that_is_no_request_of_an_admin(desk: Desk, header: bytes, code: str) -> None:
    assert reasons.code_of(reason_of(desk.says(header, b"{}"))) == code


def test_reasons_are_cut_to_what_a_header_holds(desk: Desk) -> None:
    long = "é" * limits.NAME_CHARS_MAX
    assert len(desk.refused(long)) <= limits.REASON_CHARS_MAX
    assert len(desk.refused("edit", drafts=[desk.draft("x" * 100_000, {})])) <= limits.REASON_CHARS_MAX
    assert len(desk.refused("edit", drafts=[{"x" * 100_000: 1}])) <= limits.REASON_CHARS_MAX


def test_the_note_for_the_log_says_who_wanted_what(desk: Desk) -> None:
    assert desk.asks("show").note == "admin 'ann', 'show': done"
    assert desk.asks("edit", drafts=[desk.draft("service/echo", {})]).note == "admin 'ann', 'edit': done, 1 edit"
    two = [desk.draft("service/a", {}), desk.draft("service/b", {})]
    assert desk.asks("edit", drafts=two).note == "admin 'ann', 'edit': done, 2 edits"
    assert desk.asks("reboot").note.startswith("admin 'ann', 'reboot': refused, unknown_request")
    sneaky = desk.asks("show", by="ann\nERROR all is lost", password="wrong")
    assert "\n" not in sneaky.note


def test_no_password_gets_into_an_answer_or_a_note(desk: Desk) -> None:
    for command, arguments in COMMANDS.items():
        whole = {**arguments, "new_password": "s3cret-new"} if command == "set_password" else arguments
        for password in (PASSWORD, "s3cret-wrong"):
            desk.network.now_ns += 600 * NS_PER_S
            answer = desk.asks(command, password=password, **whole)
            for told in (answer.header, answer.body, answer.note.encode()):
                assert PASSWORD.encode() not in told
                assert b"s3cret" not in told


json_value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=6), inside, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    ["service/echo", "family/a", "family/b", "broker/b1", "broker/b9", "admin/a/x", "broker_state/b2", ""]
)
some_draft = st.fixed_dictionaries(
    {
        "key": keys | json_value,
        "op": st.sampled_from(["PUT", "DEL"]) | json_value,
        "value": json_value,
        "parents": st.just([]) | json_value,
    }
)
some_arguments = st.fixed_dictionaries(
    {},
    optional={
        "drafts": st.lists(some_draft, max_size=3) | json_value,
        "dry_run": json_value,
        "edits": json_value,
        "key": keys | json_value,
        "prefix": json_value,
        "identity": json_value,
        "family": st.sampled_from(["a", "b"]) | json_value,
        "name": json_value,
        "new_password": json_value,
        "parents": json_value,
    },
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([*COMMANDS, "other"]), some_arguments)
def test_whatever_an_admin_asks_there_is_an_answer(command: str, arguments: dict[str, Any]) -> None:
    desk = Desk(Network(("b1", "b2"), {}))
    answer = desk.asks(command, **arguments)
    assert desk.member.core.add(answer.edits, logged=True) == ()
    assert desk.told("show")["version"] == len(desk.network.first) + len(answer.edits)


# -- in the whole network -------------------------------------------------------------------------------------------


def test_an_edit_that_an_admin_made_reaches_everybody(desk: Desk) -> None:
    desk.puts("broker/b2", broker_value(desk.network.pens["b2"], host="elsewhere"))
    desk.network.settle()
    for member in desk.network.members.values():
        assert member.core.config.brokers["b2"].host == "elsewhere"


def test_edits_are_signed_by_the_broker_that_accepted_them(desk: Desk) -> None:
    edits: tuple[SignedEdit, ...] = desk.asks("edit", drafts=[desk.draft("service/echo", {})]).edits
    assert desk.network["b3"].core.add(edits) == ()
    assert desk.network["b3"].core.edits.history("service/echo") == list(edits)


def test_a_peer_that_says_another_digest_has_not_seen_it(desk: Desk) -> None:
    core = desk.member.core
    desk.member.hears(desk.network["b2"].core.post.write(Beat(core.edits.version, "ff" * 32, "active", {})))
    assert desk.told("seen", edits=[])["missing"] == ["b2"]


def test_a_broker_that_is_no_peer_is_shown_as_one(desk: Desk) -> None:
    desk.puts("broker/b2", broker_value(desk.network.pens["b2"], peers=["b3"]))
    brokers = desk.told("show")["brokers"]
    assert {name: facts["peer"] for name, facts in brokers.items()} == {"b1": True, "b2": False, "b3": True}
    lines = list(words.shown_lines(answers.read_shown(json.dumps(desk.told("show")).encode()), deleted=False))
    (line,) = [line for line in lines if line.startswith("  b2 ")]
    assert line.split("  ")[-1] == "no peer of b1"
    assert "alive" not in line


# -- what counts from the next start ------------------------------------------------------------------------------


def test_an_edit_of_a_port_says_that_the_broker_has_to_be_restarted(desk: Desk) -> None:
    desk.network.listen("b1", "b2")
    moved = broker_value(desk.network.pens["b2"], peer_port=9, frontend_port=8)
    for dry_run in (True, False):
        told = desk.told("edit", drafts=[desk.draft("broker/b2", moved)], dry_run=dry_run)
        (warning,) = told["warnings"]
        assert warning["key"] == "broker/b2"
        assert warning["sentence"] == (
            "frontend_port and peer_port will count from the broker's next start: restart it; "
            "until then it keeps frontend_port=7100, peer_port=7103"
        )
    desk.network.later(1000)
    assert [each["key"] for each in desk.told("show")["warnings"]] == ["broker/b2"]
    assert desk.puts("broker/b2", broker_value(desk.network.pens["b2"]))["warnings"] == [], "as it listens now"


def test_no_restart_is_asked_for_of_a_broker_that_is_not_there(desk: Desk) -> None:
    desk.network.listen("b1", "b2")
    desk.network.cut = {frozenset({"b1", "b2"})}
    desk.network.later(5000)
    assert desk.puts("broker/b2", broker_value(desk.network.pens["b2"], peer_port=9))["warnings"] == []


def test_a_disabled_broker_forgives_nobody(disabled: Desk) -> None:
    assert disabled.refused("errors_clear", identity=None).startswith("disabled: ")
    assert disabled.told("errors") == {"workers": []}
