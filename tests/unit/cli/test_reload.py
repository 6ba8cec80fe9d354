"""Which files `famulus worker --reload` looks at."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from famulus.cli.calling.reload import folder_of, look


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x = 1\n")
    return path


def test_all_of_the_tree_counts_and_nothing_that_was_installed_or_made(tmp_path: Path) -> None:
    mine = {write(tmp_path / name) for name in ("shop.py", "parts/one.py", "parts/deep/two.py")}
    for name in (".venv/lib/three.py", ".git/four.py", "parts/__pycache__/five.py", "node_modules/six.py"):
        write(tmp_path / name)
    write(tmp_path / "environment/lib/seven.py")
    (tmp_path / "environment/pyvenv.cfg").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "parts/again").symlink_to(tmp_path)
    assert {Path(path) for path in look(tmp_path)} == mine


def test_a_change_far_below_a_new_file_and_one_that_is_gone_are_seen(tmp_path: Path) -> None:
    deep = write(tmp_path / "parts/deep/two.py")
    before = look(tmp_path)
    os.utime(deep, (1.0, 1.0))
    changed = look(tmp_path)
    new = write(tmp_path / "parts/new.py")
    more = look(tmp_path)
    new.unlink()
    assert before != changed != more
    assert look(tmp_path) == changed


def test_it_is_the_folder_of_the_whole_package_which_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    write(tmp_path / "famulus_shop.py")
    (tmp_path / "famulus_trade").mkdir()
    (tmp_path / "famulus_trade/__init__.py").write_text("raise ValueError\n")
    write(tmp_path / "famulus_plain/workers.py")
    assert folder_of("famulus_shop") == tmp_path
    assert folder_of("famulus_trade.parts.workers") == tmp_path / "famulus_trade"
    assert folder_of("famulus_plain.workers") == tmp_path / "famulus_plain"
    assert folder_of("famulus_nothing") == tmp_path
