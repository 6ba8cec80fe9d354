"""The block "Four machines" of docs/security.md: pasted into a shell, it ends with the worker's answer."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.test_commands import ROOT, blocks_of

from famulus.lab.chaos import lan

PAGE = ROOT / "docs/security.md"
(BLOCK,) = [block.text for block in blocks_of(PAGE) if block.language == "sh machines"]
#: In namespaces of their own, machines and processes are gone when the shell ends, and meet nobody else's.
ALONE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
SPACES = "mkdir -p /run/netns && mount -t tmpfs none /run/netns"
#: Nothing in the block waits for the second broker.
JOINED = "until grep -q 'b2 is a member of network' said.txt; do sleep 0.1; done"


def test_it_is_short_enough_to_type() -> None:
    assert len(BLOCK.splitlines()) < 25


@pytest.mark.skipif(
    not lan.can_have_namespaces() or shutil.which("unshare") is None, reason="it takes root, ip and unshare"
)
@pytest.mark.timeout(180)
def test_four_machines(tmp_path: Path) -> None:
    launcher = tmp_path / "famulus"
    launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m famulus "$@"\n')
    launcher.chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    said = tmp_path / "said.txt"
    with said.open("wb") as output:
        # Not by a pipe, which would stay open for as long as anybody has it.
        done = subprocess.run(
            [*ALONE, "sh", "-c", f"{SPACES}\n{BLOCK}\n{JOINED}"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=170,
            check=False,
        )
    told = said.read_text("utf-8", "replace")
    assert done.returncode == 0, told
    # Not a line of its own: the answer is printed as it is.
    assert "Hello, you!" in told, told
