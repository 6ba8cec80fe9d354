"""Whose files with keys are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from famulus.errors import SettingsError
from famulus.net.private_files import read_private, write_private

ME, SOMEBODY = 1000, 1001


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "shop.pass"
    write_private(made, b"a key")
    return made


def owned_by(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files, from now on; we are ME."""
    fstat = os.fstat

    def changed(fd: int) -> os.stat_result:
        found = list(fstat(fd))
        found[4] = user
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", changed)
    monkeypatch.setattr(os, "geteuid", lambda: ME)


@pytest.mark.parametrize("owner", [ME, 0])
def test_ours_and_those_of_root_are_read(path: Path, owner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    owned_by(owner, monkeypatch)
    assert read_private(path, "pass") == b"a key"


def test_those_of_somebody_else_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owned_by(SOMEBODY, monkeypatch)
    with pytest.raises(SettingsError) as refused:
        read_private(path, "pass")
    whose = "this pass belongs to somebody else (user 1001)"
    assert str(refused.value) == f"{path}: {whose}; if you trust it, run: chown 1000 {path}"


def test_those_that_others_may_read_are_refused(path: Path) -> None:
    path.chmod(0o640)
    with pytest.raises(SettingsError, match=r"others may read this pass \(mode 640\); run: chmod 600"):
        read_private(path, "pass")
