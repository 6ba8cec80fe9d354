"""A process that does nothing but keep a processor busy, until it is killed or alone."""

from __future__ import annotations

import os


def main() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        for _ in range(1_000_000):
            pass


if __name__ == "__main__":
    main()
