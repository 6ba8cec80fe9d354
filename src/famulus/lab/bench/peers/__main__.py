"""One process of a peer.

python -m famulus.lab.bench.peers PEER worker ARGUMENT...
python -m famulus.lab.bench.peers PEER client ORDER
"""

from __future__ import annotations

import json
import sys

from famulus.lab.bench import meter
from famulus.lab.bench.peers.peer import run
from famulus.lab.bench.peers.side import PEERS


def main(name: str, role: str, *arguments: str) -> None:
    peer = PEERS[name]
    if role == "client":
        print(json.dumps(run(peer.client(meter.read(*arguments))).report()))
    else:
        run(peer.roles[role](*arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
