"""The config of a worker on disk, in case the broker that it knows is not there when it starts."""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from famulus.core.session.worker_config import BODY_BYTES_MAX, WorkerConfig, read_config

log = logging.getLogger("famulus.worker")


class SavedConfig:
    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written = b""

    def read(self) -> WorkerConfig | None:
        """What was saved; None, and a warning, if it is not a worker's config. A missing file means a first start."""
        if self._path is None:
            return None
        try:
            with self._path.open("rb") as file:
                body = file.read(BODY_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("%s: the saved config cannot be read (%s)", self._path, error.strerror)
            return None
        config = read_config(body)
        if config is None:
            log.warning("%s is not the saved config of a worker; the next good config replaces it", self._path)
        else:
            self._written = body
        return config

    def write(self, body: bytes) -> None:
        """Save a config that a broker sent. One that cannot be read is ignored, and the file stays as it is."""
        if self._path is None or body == self._written or read_config(body) is None:
            return
        try:
            _replace(self._path, body)
        except OSError as error:
            log.warning("%s: the config cannot be saved (%s)", self._path, error.strerror)
        else:
            self._written = body


def _replace(path: Path, body: bytes) -> None:
    """Whoever reads the file, now or after a crash, finds the old one or the new one; other users cannot read it."""
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(descriptor)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
