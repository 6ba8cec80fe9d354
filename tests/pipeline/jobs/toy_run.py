"""A run of the toy tables as a process of its own, which tells each step, so that a test can kill it at one of them."""

from __future__ import annotations

import sys

import pytest
from tests.pipeline.jobs.conftest import toy_registry

from famulus.pipeline import jobs
from famulus.pipeline.place import Place
from famulus.pipeline.progress import Step
from famulus.pipeline.session import session


def tell(step: Step) -> None:
    # The answer is waited for: so the test decides what happens while the run stands exactly here.
    print(step.what, step.table, "done" if step.done else "", flush=True)
    sys.stdin.readline()


def main(journal: str, tables: str, master: str) -> None:
    with pytest.MonkeyPatch.context() as patch, session(master, heap_mib=512, archive=False, brief=True) as spark:
        jobs.run(spark, Place(journal), Place(tables), registry=toy_registry(patch), tell=tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
