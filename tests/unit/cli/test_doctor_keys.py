"""What the doctor finds about keys: files that others may read, what expires, and who wants no keys."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from famulus.broker import certificate
from famulus.broker.folder import Folder
from famulus.broker.founding import found
from famulus.cli import doctor_keys
from famulus.cli.doctor_keys import DAY_MS
from famulus.core.config.effective import Effective
from famulus.core.config.schema import Keys, Principal
from famulus.net.passes import PassFile, write_pass

PLACE = {"family": "main", "host": "127.0.0.1"}
NOW_MS = 1_700_000_000_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(doctor_keys, "_is_unsynchronised", lambda: False)
    found(tmp_path / "b1", "b1", PLACE, "ada", "a password")
    return tmp_path / "b1"


def test_nothing_is_wrong_with_what_init_made(folder: Path) -> None:
    assert list(doctor_keys.of_folder(folder)) == []


def test_files_that_others_may_read(folder: Path) -> None:
    folder.chmod(0o755)
    (folder / "broker.key").chmod(0o644)
    assert list(doctor_keys.of_folder(folder)) == [
        (f"{folder}: others may read it (mode 755)", f"chmod 700 {folder}"),
        (f"{folder}/broker.key: others may read it (mode 644)", f"chmod 600 {folder}/broker.key"),
    ]


@pytest.mark.parametrize("keys", ["none", "remote", "all"])
def test_a_broker_that_wants_no_keys(tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_keys, "_is_unsynchronised", lambda: False)
    found(tmp_path / "b1", "b1", PLACE, "ada", "a password", keys=keys)
    problems = [problem for problem, _ in doctor_keys.of_folder(tmp_path / "b1")]
    assert problems == (["broker b1 wants no keys: whoever reaches its ports may use them"] if keys == "none" else [])


def test_a_broker_that_is_plain_on_purpose(folder: Path) -> None:
    (folder / "broker.toml").write_text("plain_on_purpose = true\n")
    ((problem, _),) = doctor_keys.of_folder(folder)
    assert problem == "broker b1 is plain on purpose: whoever comes from another machine needs no key"


def test_a_broker_that_a_flag_made_plain_on_purpose(folder: Path) -> None:
    Folder(folder).note_plain(True)
    ((problem, remedy),) = doctor_keys.of_folder(folder)
    assert problem == "broker b1 is plain on purpose: whoever comes from another machine needs no key"
    assert remedy.startswith("start it without --plain-on-purpose")
    (folder / "broker.toml").write_text("plain_on_purpose = true\n")
    ((_, remedy),) = doctor_keys.of_folder(folder)
    assert remedy.startswith(f"take plain_on_purpose out of {folder}")
    (folder / "broker.toml").unlink()
    for _ in range(2):
        Folder(folder).note_plain(False)
        assert list(doctor_keys.of_folder(folder)) == []


@pytest.mark.parametrize(("days", "words"), [(3, "ends in 3 days"), (-1, "has ended"), (20, ""), (None, "")])
def test_a_certificate_that_ends(folder: Path, days: int | None, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "days_left", lambda path: days)
    problems = [problem for problem, _ in doctor_keys.of_folder(folder)]
    assert problems == ([f"the certificate of the HTTP port {words}"] if words else [])


def test_a_clock_that_nobody_keeps_right(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_keys, "_is_unsynchronised", lambda: True)
    ((problem, remedy),) = doctor_keys.of_folder(folder)
    assert "clock" in problem
    assert "chrony" in remedy


def test_what_is_no_folder_of_a_broker(tmp_path: Path) -> None:
    ((problem, _),) = doctor_keys.of_folder(tmp_path / "nothing")
    assert "network.json" in problem


def test_what_has_expired_or_will_soon() -> None:
    expiries = {"never": 0, "later": NOW_MS + 30 * DAY_MS, "soon": NOW_MS + 3 * DAY_MS + 1, "past": NOW_MS - 1}
    principals = {name: Principal(("0" * 64,), ("main",), expires_ms=each) for name, each in expiries.items()}
    problems = [problem for problem, _ in doctor_keys._expiring(Effective(1, "", principals=principals), NOW_MS)]
    assert problems == ["the pass of past has expired", "the pass of soon expires in 3 days"]


def test_a_pass_that_others_may_read(tmp_path: Path) -> None:
    path = tmp_path / "shop.pass"
    write_pass(path, PassFile(1, "network", "shop", [], os.urandom(32).hex()))
    assert list(doctor_keys.of_pass(path)) == []
    path.chmod(0o644)
    assert list(doctor_keys.of_pass(path)) == [
        (f"{path}: others may read this pass (mode 644)", f"chmod 600 {path}"),
    ]


@pytest.mark.parametrize(("state", "expected"), [(0, False), (5, True), (-1, False)])
def test_the_kernel_is_asked_about_the_clock(state: int, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(adjtimex=lambda room: state)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert doctor_keys._is_unsynchronised() is expected


def test_a_system_that_does_not_tell_about_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    assert not doctor_keys._is_unsynchronised()
