"""A client's run with the CPU time that each process took for one of its tasks."""

from __future__ import annotations

import json

from famulus.lab.bench import fleet
from famulus.lab.bench.load import WARM_UP_S

#: What a client may take beyond its time: to start, and for its last answers.
GRACE_S = 60.0


def weighed(members: list[fleet.Member], client: list[str], seconds: float) -> dict[str, float]:
    """Run the client's command to its end; its figures, with `cpu_us_...` of all who were there before it."""
    # The scales see the start and the warm-up too; the tasks of the warm-up are not counted, hence the correction.
    scales = fleet.Scales(members)
    running = fleet.Member("client", client, None)
    members.append(running)
    figures: dict[str, float] = json.loads(running.output(seconds + GRACE_S))
    per_task = seconds / (seconds + WARM_UP_S) / max(1, figures["tasks"]) * 1e6
    for name, cpu_s in scales.weigh().items():
        figures[f"cpu_us_{name}"] = cpu_s * per_task
    return figures
