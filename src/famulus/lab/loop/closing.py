"""The loop: measure, make tables of the journal, apply the findings, measure again. Everything runs on this machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import Final, NamedTuple

from famulus.errors import LabFailed
from famulus.journal.reading import JournalReader
from famulus.lab.chaos.edits import Admin
from famulus.lab.chaos.lan import Loopback
from famulus.lab.chaos.network import Broker, Network, Program
from famulus.lab.loop import cast
from famulus.lab.loop.cast import Fault, Hired
from famulus.lab.loop.load import Answers, is_better, measure
from famulus.lab.processes import python

ADMIN: Final = "ann"
#: Within this time an edit must be acknowledged, and the journal must have what has ended.
SOON_S: Final = 30.0
#: So long are services asked, before and after.
LOAD_S: Final = 12.0
STOP_S: Final = 10.0

#: Makes the table of findings of a journal: both folders are given.
Diagnose = Callable[[Path, Path], None]
Tell = Callable[[str], None]


class Outcome(NamedTuple):
    fault: Fault
    #: The title of the finding, and the edit; empty if there was none.
    finding: str
    edit: str
    before: Answers
    after: Answers

    @property
    def is_better(self) -> bool:
        return bool(self.edit) and is_better(self.fault, self.before, self.after)


class Patients(Network):
    """Two brokers of two families, their workers, and an admin."""

    def __init__(self, folder: Path, faults: Sequence[Fault]) -> None:
        self.folder, self.faults, lan = folder, faults, Loopback()
        self.journal, self.tables = folder / "journal", folder / "tables"
        config = folder / "broker.toml"
        # What has ended is to be read a second later.
        config.write_text("journal_roll_s = 1\n")
        flags = ("--config", str(config), "--journal-folder", str(self.journal), "--no-http", "--drain-ms", "2000")
        brokers = [
            Broker(name, family, folder, lan.machine(name), lan.ports(), *flags)
            for name, family in cast.BROKERS.items()
        ]
        super().__init__(lan, ADMIN, brokers)
        self._admin = Admin(self)
        services = {fault.service for fault in faults}
        self._workers = [self._hire(worker) for worker in cast.WORKERS if worker.service in services]

    def _hire(self, worker: Hired) -> Program:
        home = self.brokers[worker.home]
        what = (f"famulus.lab.loop.cast:{worker.program}", "--broker", home.address("backend"))
        name = ("--identity", worker.name)
        return Program(worker.name, self.folder, home.machine, "famulus", "worker", *what, *name)

    def start(self) -> None:
        self.found()
        for broker in self.brokers.values():
            broker.start()
            broker.wait_until_ready()
        for worker in self._workers:
            worker.start()
        for fault in self.faults:
            self._admin.put_for_sure("b1", f"service/{fault.service}", fault.settings, SOON_S)
        for worker in self._workers:
            worker.wait_until_ready()

    def measure(self, seconds: float) -> dict[str, Answers]:
        return measure(self.brokers["b1"].address("frontend"), self.faults, seconds)

    def wait_for_journal(self, tasks: int) -> None:
        deadline_s = monotonic() + SOON_S
        while not self.journal.exists() or JournalReader(self.journal).figures()["tasks"].rows < tasks:
            if monotonic() > deadline_s:
                raise LabFailed(f"the journal has not all of the {tasks} tasks that have ended")
            sleep(0.1)

    def apply(self, finding: str) -> None:
        """As an admin would; by its id, since numbers change with every run of the pipeline."""
        password_file = self.folder / "password"
        password_file.touch(0o600)
        password_file.write_text(self.password)
        who = ("--broker", self.brokers["b1"].address("frontend"), "--user", ADMIN)
        how = ("--password-file", str(password_file), "--yes", "--wait", "10")
        command("findings", "apply", finding, "--tables", str(self.tables), *who, *how)

    def close(self) -> None:
        self._admin.close()
        for program in (*self._workers, *self.brokers.values()):
            program.stop(STOP_S)
        self.lan.close()


def command(*words: str) -> str:
    """What this command of ours prints."""
    done = subprocess.run(python("famulus", *words), capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabFailed(f"famulus {' '.join(words[:2])}: {done.stderr.strip()[-500:]}")
    return done.stdout


def by_pipeline(journal: Path, tables: Path) -> None:
    command("pipeline", "run", "--journal", str(journal), "--tables", str(tables))


def close_the_loop(
    folder: Path,
    tell: Tell,
    *,
    faults: Sequence[Fault] = cast.FAULTS,
    seconds: float = LOAD_S,
    diagnose: Diagnose = by_pipeline,
) -> list[Outcome]:
    with closing(Patients(folder, faults)) as network:
        network.start()
        tell(f"{len(faults)} services are asked for {seconds:.0f} s")
        before = network.measure(seconds)
        network.wait_for_journal(sum(each.asked for each in before.values()))
        tell("the pipeline makes tables of the journal")
        diagnose(network.journal, network.tables)
        found = json.loads(command("findings", "list", "--tables", str(network.tables), "--json"))
        chosen = {fault.service: _about(fault, found) for fault in faults}
        for finding in chosen.values():
            if finding:
                tell(f"{finding['title']}: {finding['evidence']}")
                tell(f"  famulus findings apply {finding['rank']}: {_edit(finding)}")
                network.apply(str(finding["id"]))
        tell(f"the same for {seconds:.0f} s again")
        after = network.measure(seconds)
    return [
        Outcome(fault, str(about.get("title", "")), _edit(about), before[fault.service], after[fault.service])
        for fault in faults
        for about in (chosen[fault.service],)
    ]


def _about(fault: Fault, found: list[dict[str, object]]) -> dict[str, object]:
    """The finding that sees this fault and has an edit; empty if there is none."""
    for each in found:
        if each["kind"] == fault.finding and fault.service in str(each["subject"]).split() and each["value"]:
            return each
    return {}


def _edit(finding: dict[str, object]) -> str:
    fields = finding.get("value")
    return f"{finding['key']} {json.dumps(fields)}" if fields else ""
