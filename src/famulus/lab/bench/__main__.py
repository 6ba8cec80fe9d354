"""A process of a measurement: the `main` of one of these modules, with the words that follow.

python -m famulus.lab.bench MODULE WORD...
"""

from __future__ import annotations

import sys
from importlib import import_module

if __name__ == "__main__":
    import_module(f"famulus.lab.bench.{sys.argv[1]}").main(*sys.argv[2:])
