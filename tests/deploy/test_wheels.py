"""What makes the source archive and the wheels. That takes minutes; here is the archive, and what a wheel must have."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy/wheels/make.py"
COMPILED = (ROOT / "compiled.txt").read_text().split()


@pytest.fixture
def make() -> ModuleType:
    spec = spec_from_file_location("make", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_archive_is_made_offline_and_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set((ROOT / "src").iterdir())
    command = [sys.executable, str(SCRIPT), "--output", str(tmp_path / "dist"), "--only-archive"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=tmp_path)
    archive = Path(told.stdout.strip())
    assert archive.parent == tmp_path / "dist"
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*") if path.suffix in (".c", ".h", ".py")}
    assert there <= names
    assert not [name for name in names if name.endswith((".so", ".pyc")) or name.startswith("build")]
    assert set((ROOT / "src").iterdir()) == before


def test_a_wheel_needs_every_compiled_module(make: ModuleType) -> None:
    whole = [f"{name.removeprefix('src/').removesuffix('.py')}.cpython-311-x86_64-linux-gnu.so" for name in COMPILED]
    whole += ["famulus/net/_pump.cpython-311-x86_64-linux-gnu.so", "famulus/journal/_packing.abi3.so"]
    assert make.missing_from(whole, COMPILED) == []
    assert make.missing_from(whole[1:], COMPILED) == [COMPILED[0].removeprefix("src/").removesuffix(".py")]
    assert make.missing_from([*whole[:-2], "famulus/net/_pump.pyi", whole[-1]], COMPILED) == ["famulus/net/_pump"]


def test_without_auditwheel_the_wheel_stays_as_it_is(
    make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    wheel = tmp_path / "famulus-0.1.0-cp311-cp311-linux_x86_64.whl"
    wheel.touch()
    assert make.for_other_machines(wheel) is None
    assert wheel.exists()


def test_with_auditwheel_the_wheel_has_the_name_that_it_gets(
    make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "patchelf").write_text("#!/bin/sh\n")
    (tools / "auditwheel").write_text('#!/bin/sh\necho repaired > "$3/famulus-0.1.0-cp311-cp311-manylinux_2_28.whl"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    wheel = tmp_path / "famulus-0.1.0-cp311-cp311-linux_x86_64.whl"
    wheel.touch()
    repaired = make.for_other_machines(wheel)
    assert repaired == tmp_path / "famulus-0.1.0-cp311-cp311-manylinux_2_28.whl"
    assert repaired.read_text() == "repaired\n"
    assert not wheel.exists()


def test_what_fails_is_said_with_its_output(make: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(make.Failure, match=r"(?s)failed:\nno compiler"):
        make.run([sys.executable, "-c", "import sys; print('no compiler'); sys.exit(1)"], tmp_path)
