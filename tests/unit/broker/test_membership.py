"""A member's folder: what is in it after a restart, after damage, and while somebody else has it."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from famulus.broker.edit_log import EditLog, scan
from famulus.broker.folder import Folder
from famulus.broker.founding import found
from famulus.broker.keys import BrokerKey
from famulus.broker.membership import Membership, is_lost, look, nonce, read_secret
from famulus.broker.passwords import derive_key
from famulus.core.config.draft import Author, Draft, make
from famulus.core.config.edit import SignedEdit, sign
from famulus.core.config.effective import effective
from famulus.errors import SettingsError

FOUNDED = 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "b1"
    found(path, "b1", {"family": "main", "host": "127.0.0.1"}, "ada", "pw")
    return path


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[[], Membership]]:
    """Open the folder; what was opened before is closed."""
    memberships: list[Membership] = []

    def open_it() -> Membership:
        for membership in memberships:
            membership.close()
        memberships.append(Membership(path))
        return memberships[-1]

    yield open_it
    for membership in memberships:
        membership.close()


Opened = Callable[[], Membership]


def written(membership: Membership, key: str, value: Any = None, parents: tuple[str, ...] = ()) -> SignedEdit:
    """A new edit of ada's, signed by the broker of this folder."""
    return signed(membership, Draft(key, "PUT", value or {}, parents))


def signed(membership: Membership, draft: Draft) -> SignedEdit:
    grant = membership.edits.grant_of(membership.identity, membership.key.public)
    (record,) = membership.edits.heads("admin/main/ada")
    ada = derive_key(record.edit.value["hash"], "pw")
    assert ada is not None
    author = Author("ada", {record.id: ada.sign})
    edit = make(draft, author, membership.network.network_id, membership.identity, grant, 1 << 40, nonce())
    return sign(edit, membership.key.sign, author.signers)


def forgotten(membership: Membership) -> SignedEdit:
    """What removes the broker of this folder."""
    heads = tuple(head.id for head in membership.edits.heads("broker/b1"))
    return signed(membership, Draft("broker/b1", "DEL", None, heads))


def with_services(opened: Opened, count: int) -> list[SignedEdit]:
    membership = opened()
    edits = [written(membership, f"service/s{number}") for number in range(count)]
    membership.write(edits)
    membership.close()
    return edits


def record_of(path: Path, key: str) -> tuple[int, int]:
    """Where in the log the edit of this key lies."""
    data = (path / "edits.log").read_bytes()
    at = data.index(f'"key":"{key}"'.encode())
    begin = data.rindex(b"\xedEDIT\r\n\xff", 0, at)
    end = data.find(b"\xedEDIT\r\n\xff", at)
    return begin, end if end >= 0 else len(data)


def damage(path: Path, key: str) -> None:
    log = path / "edits.log"
    data = bytearray(log.read_bytes())
    data[record_of(path, key)[0] + 60] ^= 0xFF
    log.write_bytes(data)


def test_what_is_written_is_there_after_a_restart(opened: Opened) -> None:
    edits = with_services(opened, 3)
    membership = opened()
    assert membership.identity == "b1"
    assert membership.damage == []
    assert list(membership.edits)[FOUNDED:] == edits
    assert effective(membership.edits).services.keys() == {"s0", "s1", "s2"}


def test_what_it_does_not_know_of_yet_is_written_too(opened: Opened) -> None:
    """The log takes what the steward took; it is the steward who decides."""
    membership = opened()
    (edit,) = [written(membership, "service/new")]
    membership.write((edit,))
    assert membership.edits.get(edit.id) is None
    assert opened().edits.get(edit.id) == edit


# -- damage -------------------------------------------------------------------------------------------------------


def test_a_damaged_record_is_reported_and_the_rest_is_kept(path: Path, opened: Opened) -> None:
    with_services(opened, 5)
    damage(path, "service/s2")
    membership = opened()
    assert len(membership.damage) == 1
    assert "bytes at" in membership.damage[0]
    assert effective(membership.edits).services.keys() == {"s0", "s1", "s3", "s4"}


def test_a_damaged_record_that_others_build_upon_makes_these_wait(path: Path, opened: Opened) -> None:
    """What names it comes to life when the peers have told it again."""
    membership = opened()
    first = written(membership, "service/echo")
    second = written(membership, "service/echo", {"timeout_ms": 5}, (first.id,))
    membership.write([first, second])
    membership.close()
    damage(path, "service/echo")
    membership = opened()
    assert membership.edits.orphans == 1
    assert membership.edits.missing() == [first.id]
    membership.edits.add([first])
    assert membership.edits.heads("service/echo") == (second,)


def test_a_torn_record_at_the_end_is_reported_once_and_cut_off(path: Path, opened: Opened) -> None:
    with_services(opened, 2)
    log = path / "edits.log"
    log.write_bytes(log.read_bytes()[:-10])
    membership = opened()
    assert len(membership.damage) == 1
    assert effective(membership.edits).services.keys() == {"s0"}
    assert opened().damage == []


def test_what_is_pulled_again_is_appended_and_there(path: Path, opened: Opened) -> None:
    edits = with_services(opened, 3)
    damage(path, "service/s1")
    membership = opened()
    membership.write([edits[1]])
    again = opened()
    assert effective(again.edits).services.keys() == {"s0", "s1", "s2"}
    assert again.edits.version == FOUNDED + 3


def test_a_log_without_a_whole_record_is_one_without_edits(path: Path, opened: Opened) -> None:
    for key in ("broker/b1", "family/main", "broker_state/b1", "admin/main/ada"):
        damage(path, key)
    membership = opened()
    assert membership.edits.version == 0
    assert membership.damage
    membership.close()
    with pytest.raises(SettingsError, match="the config of the network is lost"):
        look(path)


def test_whole_records_that_are_no_edits_are_passed_over(path: Path, opened: Opened) -> None:
    with EditLog(path / "edits.log") as log:
        log.append(
            [b"rubbish", b"", msgspec.msgpack.encode([b"data"]), msgspec.msgpack.encode([b"data", b"signature"])]
        )
    membership = opened()
    assert membership.edits.version == FOUNDED
    assert any("not an edit" in each for each in membership.damage), "this one looks like an edit, and is none"


def test_an_edit_that_somebody_else_signed_is_not_believed(path: Path, opened: Opened, tmp_path: Path) -> None:
    thief = BrokerKey.create(tmp_path / "thief.key")
    membership = opened()
    genuine = written(membership, "service/echo")
    membership.write([SignedEdit(genuine.data, thief.sign(b"famulus edit 1\n" + genuine.data))])
    again = opened()
    assert again.edits.get(genuine.id) is None
    assert len(again.damage) == 1
    assert "signature" in again.damage[0]


# -- looking ------------------------------------------------------------------------------------------------------


def test_a_look_tells_of_the_broker_and_takes_nothing(path: Path, opened: Opened) -> None:
    network, config, broker = look(path)
    assert network.identity == "b1"
    assert broker == config.brokers["b1"]
    assert opened().damage == []


def test_a_look_leaves_the_damage_for_whoever_takes_the_folder_to_report(path: Path, opened: Opened) -> None:
    with_services(opened, 2)
    log = path / "edits.log"
    log.write_bytes(log.read_bytes()[:-10])
    look(path)
    assert len(opened().damage) == 1


def test_a_broker_that_was_removed_is_told_so(path: Path, opened: Opened) -> None:
    membership = opened()
    membership.write([forgotten(membership)])
    membership.close()
    with pytest.raises(SettingsError, match=r"does not know broker 'b1' \(any more\)"):
        look(path)


# -- what is not there, and who else is -----------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["network.json", "broker.key"])
def test_a_part_that_is_missing_is_named(path: Path, part: str) -> None:
    (path / part).unlink()
    with pytest.raises(SettingsError, match=part):
        Membership(path)


def test_a_member_without_the_secret_has_none(path: Path, opened: Opened) -> None:
    """It joined by its key. An empty file is a mistake, and is said."""
    secret = Folder(path).secret
    secret.unlink()
    member = opened()
    assert member.secret() == ""
    secret.touch(0o600)
    with pytest.raises(SettingsError, match=r"join\.secret"):
        member.secret()


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nowhere"):
        look(tmp_path / "nowhere")


def test_a_second_process_is_refused_in_words(path: Path, opened: Opened) -> None:
    opened()
    code = (
        f"from famulus.broker.membership import Membership\nfrom pathlib import Path\nMembership(Path({str(path)!r}))"
    )
    second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "edits.log: another process uses it" in second.stderr


def test_a_failure_to_open_leaves_the_log_free(path: Path) -> None:
    key = (path / "broker.key").read_bytes()
    (path / "broker.key").write_bytes(b"rubbish")
    with pytest.raises(SettingsError):
        Membership(path)
    (path / "broker.key").write_bytes(key)
    Membership(path).close()


@pytest.mark.parametrize(
    ("text", "secret"), [(b"abc\n", "abc"), (b"  abc  \n\n", "abc"), (b"abc", "abc"), ("é\n".encode(), "é")]
)
def test_secrets_are_read_without_the_space_around_them(tmp_path: Path, text: bytes, secret: str) -> None:
    path = tmp_path / "secret"
    path.write_bytes(text)
    assert str(read_secret(path)) == secret


@pytest.mark.parametrize("text", [b"", b"\n", b"   \n"])
def test_no_secret_is_no_secret(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "secret"
    path.write_bytes(text)
    with pytest.raises(SettingsError, match="holds no secret"):
        read_secret(path)


def test_a_secret_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"x" * 1_000_000 + b"\xff")
    assert len(read_secret(path)) == 4096


def test_the_tests_own_eye_for_records(path: Path, opened: Opened) -> None:
    """`record_of` is right about where records are: else the tests of damage would damage something else."""
    with_services(opened, 2)
    begin, end = record_of(path, "service/s1")
    reading = scan((path / "edits.log").read_bytes()[begin:end], 0)
    assert (len(reading.records), reading.damage) == (1, [])
    assert b"service/s1" in reading.records[0]


# -- a log that was lost ------------------------------------------------------------------------------------------


def removed(path: Path) -> None:
    (path / "edits.log").unlink()


def damaged_at_its_beginning(path: Path) -> None:
    damage(path, "broker/b1")


def overwritten(path: Path) -> None:
    (path / "edits.log").write_bytes(b"\x00" * 5000)


LOSSES = [removed, damaged_at_its_beginning, overwritten]


def remembers(opened: Opened, *others: str) -> None:
    """As a steward does whenever the config changes."""
    membership = opened()
    own = effective(membership.edits).brokers["b1"]
    membership.remember({"b1": own, **dict.fromkeys(others, own)}, {})
    membership.close()


@pytest.mark.parametrize("lose", LOSSES)
def test_without_its_log_a_broker_still_knows_who_it_is_and_whom_to_ask(
    path: Path, opened: Opened, lose: Callable[[Path], None]
) -> None:
    remembers(opened, "b2", "b3")
    _, _, before = look(path)
    assert opened().known is None
    opened().close()
    assert not is_lost(path)
    lose(path)
    assert is_lost(path)
    _, _, broker = look(path)
    assert broker == before
    membership = opened()
    assert membership.edits.version == 0
    assert membership.damage
    assert membership.known is not None
    assert sorted(membership.known) == ["b1", "b2", "b3"]


@pytest.mark.parametrize("lose", LOSSES)
def test_the_only_broker_of_a_network_says_what_is_lost_and_does_not_start(
    path: Path, opened: Opened, lose: Callable[[Path], None]
) -> None:
    remembers(opened)
    lose(path)
    with pytest.raises(SettingsError, match="the config of the network is lost") as raised:
        look(path)
    told = str(raised.value)
    assert "edits.log" in told
    assert "nobody else has it" in told
    assert "put back a copy" in told
    assert "famulus init" in told


@pytest.mark.parametrize("memory", [None, b"", b"{", b"[]", b'{"b2": 7}', b"\xff" * 100])
def test_one_that_remembers_nobody_says_how_to_name_somebody(path: Path, memory: bytes | None) -> None:
    if memory is not None:
        (path / "brokers.json").write_bytes(memory)
    removed(path)
    with pytest.raises(SettingsError, match="the config of the network is lost") as raised:
        look(path)
    assert f"famulus broker --folder {path} --join HOST:PORT" in str(raised.value)


def test_what_is_no_log_any_more_is_kept_for_whoever_wants_to_look(path: Path, opened: Opened) -> None:
    remembers(opened, "b2")
    overwritten(path)
    assert any("edits.log.damaged" in each for each in opened().damage)
    assert (path / "edits.log.damaged").read_bytes() == b"\x00" * 5000


def test_a_log_of_a_newer_version_is_not_one_that_was_lost(path: Path, opened: Opened) -> None:
    remembers(opened, "b2")
    checked = struct.pack(">14sH", b"famulus edits\n", 2)
    (path / "edits.log").write_bytes(checked + zlib.crc32(checked).to_bytes(4, "big"))
    for use in (look, Membership):
        with pytest.raises(SettingsError, match="too old"):
            use(path)


def test_a_broker_that_was_removed_has_not_lost_its_log(path: Path, opened: Opened) -> None:
    remembers(opened, "b2")
    membership = opened()
    membership.write([forgotten(membership)])
    membership.close()
    assert not is_lost(path)
    with pytest.raises(SettingsError, match="does not know broker 'b1'"):
        look(path)


def test_where_brokers_are_is_for_the_owner_only_and_written_when_it_changed(path: Path, opened: Opened) -> None:
    remembers(opened, "b2")
    file = path / "brokers.json"
    assert file.stat().st_mode & 0o777 == 0o600
    membership = opened()
    own = effective(membership.edits).brokers["b1"]
    membership.remember({"b1": own}, {})
    before = file.stat().st_ino
    membership.remember({"b1": own}, {})
    assert file.stat().st_ino == before


# -- where admins come from -----------------------------------------------------------------------------------------


def test_where_admins_were_heard_is_kept_for_the_owner_alone(path: Path, opened: Opened) -> None:
    assert opened().known_admins == []
    opened().remember_admins([("frontend", "ada")])
    assert opened().known_admins == [("frontend", "ada")]
    file = path / "admins.json"
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'[["a"]]', b"\xff", b'[["a", 1]]'])
def test_one_that_cannot_be_read_knows_no_admins(path: Path, opened: Opened, data: bytes) -> None:
    (path / "admins.json").write_bytes(data)
    membership = opened()
    assert membership.known_admins == []
    membership.remember_admins([("frontend", "ada")])
    assert opened().known_admins == [("frontend", "ada")]
