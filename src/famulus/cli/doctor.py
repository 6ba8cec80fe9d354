"""`famulus doctor`: what this machine is, and what about it would hurt in production.

`examine` looks and judges nothing; `judge` judges and looks at nothing, so tests can show it any machine.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from famulus import __version__
from famulus._plain import is_compiled
from famulus.cli import doctor_keys

OPEN_FILES_MIN = 65_536
SOMAXCONN_MIN = 1_024
CORES_MIN = 3
LIBZMQ_MIN = (4, 3, 5)


class Facts(msgspec.Struct, frozen=True):
    """One machine and one installation, as found."""

    famulus: str
    python: str
    #: "none" if they are not installed; only brokers need them.
    pyzmq: str
    libzmq: str
    curve: bool
    msgspec: str
    #: "none" if there is no Java; only the Spark pipeline needs it.
    java: str
    #: "native" or "python"
    pump: str
    pump_why_not_native: str
    #: "compiled" or "python"
    core: str
    python_optimised: bool
    cores: int
    memory_mib: int
    open_files_soft: int
    open_files_hard: int
    #: None if the system does not tell.
    somaxconn: int | None
    root_user: bool


class Finding(msgspec.Struct, frozen=True):
    """Something that would hurt in production, and what to do about it."""

    problem: str
    remedy: str


def doctor(
    folder: Annotated[Path | None, typer.Option(help="The folder of a broker: look at its keys, too.")] = None,
    pass_file: Annotated[
        Path | None, typer.Option("--pass", envvar="FAMULUS_PASS", help="A pass: look at it, too.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")] = False,
) -> None:
    """Show versions and limits of this machine, and what to fix before production."""
    facts = examine()
    findings = judge(facts)
    if folder is not None:
        findings += [Finding(*found) for found in doctor_keys.of_folder(folder)]
    if pass_file is not None:
        findings += [Finding(*found) for found in doctor_keys.of_pass(pass_file)]
    if json:
        typer.echo(msgspec.json.encode({"facts": facts, "warnings": findings}).decode())
    else:
        _show(facts, findings)


def examine() -> Facts:
    """Look at this machine."""
    from importlib.metadata import version

    from famulus.net import native

    pyzmq, libzmq, curve = _zeromq()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Facts(
        famulus=__version__,
        python=platform.python_version(),
        pyzmq=pyzmq,
        libzmq=libzmq,
        curve=curve,
        msgspec=version("msgspec"),
        java=_java_version(),
        pump="native" if native.NATIVE else "python",
        pump_why_not_native=native.WHY_NOT_NATIVE,
        core="compiled" if is_compiled() else "python",
        python_optimised="--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS")),
        # What this process may use, which may be less than the machine has, because of taskset or a container.
        cores=len(os.sched_getaffinity(0)),
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        open_files_soft=soft,
        open_files_hard=hard,
        somaxconn=_read_int(Path("/proc/sys/net/core/somaxconn")),
        root_user=os.geteuid() == 0,
    )


def _zeromq() -> tuple[str, str, bool]:
    """The versions of pyzmq and libzmq, and whether this libzmq can encrypt."""
    from importlib.metadata import version

    try:
        from famulus.net import pump
    except ModuleNotFoundError:
        return "none", "none", False
    return version("pyzmq"), *pump.libzmq()


def judge(facts: Facts) -> list[Finding]:
    """What would hurt in production, worst first."""
    findings = []

    def find(problem: str, remedy: str) -> None:
        findings.append(Finding(problem, remedy))

    if 0 <= facts.open_files_soft < OPEN_FILES_MIN:
        find(
            f"only {facts.open_files_soft} open files are allowed, and every connection is one",
            f"ulimit -n {OPEN_FILES_MIN}, or LimitNOFILE={OPEN_FILES_MIN} in the systemd unit",
        )
    has_libzmq = facts.libzmq != "none"
    if has_libzmq and tuple(map(int, re.findall(r"\d+", facts.libzmq))) < LIBZMQ_MIN:
        find(
            f"libzmq {facts.libzmq} has known faults that were fixed in 4.3.5",
            "install pyzmq from its wheel, which brings a current libzmq",
        )
    if has_libzmq and not facts.curve:
        find("this libzmq cannot encrypt (CURVE)", "install pyzmq from its wheel, which brings libsodium")
    if facts.pump != "native":
        find(
            f"the slower pump in Python is in use; why not the native one: {facts.pump_why_not_native}",
            "install a C compiler and the headers of Python, remove .venv, start ./famulus again",
        )
    if facts.core != "compiled":
        find(
            "the hot modules run as plain Python, at less than half of the speed",
            "unset FAMULUS_CORE; or install a C compiler and Python's headers, remove .venv, start ./famulus again",
        )
    if not facts.python_optimised:
        find(
            "this Python was built without --enable-optimizations, which costs about a third of its speed",
            "use a distribution's Python, or build it with them; FAMULUS_PYTHON names the one to use",
        )
    if facts.somaxconn is not None and facts.somaxconn < SOMAXCONN_MIN:
        find(
            f"net.core.somaxconn is {facts.somaxconn}: a crowd that reconnects at once would be turned away",
            f"sysctl -w net.core.somaxconn={SOMAXCONN_MIN * 4}",
        )
    if facts.cores < CORES_MIN:
        find(
            f"{facts.cores} cores: dispatcher, router and the rest of a broker share them",
            f"give a broker at least {CORES_MIN} cores",
        )
    if facts.root_user:
        find("this is the root user", "run brokers as a user of their own, without privileges")
    return findings


def _show(facts: Facts, findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for name, value in _lines(facts):
        console.print(Text.assemble((f"{name:<12}", "dim"), value), soft_wrap=True)
    console.print()
    if not findings:
        console.print("Nothing to fix.", style="green")
    for finding in findings:
        # Text, not markup: what the system says may contain brackets. Soft wrap: a remedy is meant to be copied.
        console.print(Text.assemble(("warning: ", "bold yellow"), finding.problem), soft_wrap=True)
        console.print(Text(f"         remedy: {finding.remedy}"), soft_wrap=True)


def _lines(facts: Facts) -> list[tuple[str, str]]:
    why = f" (why not native: {facts.pump_why_not_native})" if facts.pump_why_not_native else ""
    curve = "" if facts.libzmq == "none" else f", {'with' if facts.curve else 'without'} CURVE"
    return [
        ("famulus", facts.famulus),
        ("pump", facts.pump + why),
        ("hot modules", facts.core),
        ("Python", facts.python),
        ("pyzmq", facts.pyzmq),
        ("libzmq", facts.libzmq + curve),
        ("msgspec", facts.msgspec),
        ("Java", facts.java),
        ("cores", str(facts.cores)),
        ("memory", f"{facts.memory_mib} MiB"),
        ("open files", f"{_limit(facts.open_files_soft)} (hard limit {_limit(facts.open_files_hard)})"),
        ("somaxconn", "unknown" if facts.somaxconn is None else str(facts.somaxconn)),
    ]


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _read_int(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        return "none"
    try:
        # It answers on stderr, and its first line reads: openjdk version "17.0.2" 2022-01-18
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        return f"{java} does not run: {error}"
    quoted = re.search(r'version "([^"]+)"', answer)
    return quoted[1] if quoted else answer.partition("\n")[0]
