"""Tries inputs one after the other. Each follows from the seed and its own number, so any can be tried alone."""

from __future__ import annotations

from collections import Counter
from random import Random

from famulus.lab.fuzz.failure import Failure
from famulus.lab.fuzz.handshakes import Handshakes
from famulus.lab.fuzz.streams import Streams

#: Handshakes cost more than frames, and there is more to them.
HANDSHAKES_SHARE = 0.5


class Fuzz:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._handshakes = Handshakes()
        self._streams = Streams()
        #: How many inputs of each kind there were.
        self.kinds: Counter[str] = Counter()

    def try_one(self, number: int) -> None:
        """A `Failure` if something was accepted that was changed; any other exception is one as well."""
        random = Random(f"{self._seed}/{number}")
        target = self._handshakes if random.random() < HANDSHAKES_SHARE else self._streams
        try:
            self.kinds[target.try_one(random)] += 1
        except Failure:
            raise
        except Exception as error:
            raise Failure(f"{type(error).__name__}: {error}") from error
