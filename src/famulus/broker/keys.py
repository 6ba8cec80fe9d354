"""Who a broker is: its Ed25519 key, and the secrets by which a new broker and a network recognise each other.

`repr` shows neither a private key nor a secret, so none gets into a log or a traceback by accident.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
from pathlib import Path
from typing import Self

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey

from famulus.broker.folder import opened, plainly, sync_folder, write_all
from famulus.errors import SettingsError
from famulus.wire.curve import CurveKey

SIGNATURE_BYTES = 64

#: With the public key, since a damaged private key would still be a valid one, but somebody else's.
_FILE = "famulus broker key 1\nprivate {}\npublic {}\n"
_FILE_PATTERN = re.compile(_FILE.format("([0-9a-f]{64})", "([0-9a-f]{64})").encode())
_FILE_BYTES_MAX = 4096
#: Only one spelling is allowed: otherwise two texts for the same key would be two brokers with one key.
_PUBLIC_PATTERN = re.compile("[0-9a-f]{64}")


class KeyPair:
    """What somebody signs with, and what others recognise it by."""

    __slots__ = ("_signing", "public")

    def __init__(self, signing: SigningKey) -> None:
        self._signing = signing
        self.public = signing.verify_key.encode().hex()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(public={self.public!r})"

    def sign(self, message: bytes) -> bytes:
        return self._signing.sign(message).signature

    def curve_key(self) -> CurveKey:
        """The key of its connections: others compute the public half from ours."""
        return CurveKey(self._signing.to_curve25519_private_key().encode())


class BrokerKey(KeyPair):
    __slots__ = ()

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new key, in a file of its own that only we may read."""
        key = cls(SigningKey.generate())
        text = _FILE.format(key._signing.encode().hex(), key.public)
        with plainly(path, "cannot be created"):
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                raise SettingsError(f"{path}: is there already; a key is not overwritten") from None
            try:
                write_all(fd, text.encode())
                os.fsync(fd)
            except BaseException:
                path.unlink()
                raise
            finally:
                os.close(fd)
            sync_folder(path.parent)
        return key

    @classmethod
    def load(cls, path: Path) -> Self:
        # A pipe in its place must not block us.
        with plainly(path, "cannot be read"), opened(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
            mode = os.fstat(fd).st_mode
            data = os.read(fd, _FILE_BYTES_MAX)
        if mode & 0o077:
            remedy = f"chmod 600 {shlex.quote(str(path))}"
            raise SettingsError(f"{path}: others may read this key (mode {mode & 0o777:03o}); run: {remedy}")
        if (found := _FILE_PATTERN.fullmatch(data)) is None:
            raise SettingsError(f"{path}: is not the key of a broker, or is damaged")
        key = cls(SigningKey(bytes.fromhex(found[1].decode())))
        if key.public != found[2].decode():
            raise SettingsError(f"{path}: is damaged: its private and its public key do not belong together")
        return key


def verify(public: str, message: bytes, signature: bytes) -> bool:
    """Whether this key signed this message. If anything is wrong with any of the three, the answer is no."""
    try:
        if not is_public(public) or len(signature) != SIGNATURE_BYTES:
            return False
        VerifyKey(bytes.fromhex(public)).verify(message, signature)
    except (CryptoError, TypeError, ValueError):
        return False
    return True


def is_public(text: str) -> bool:
    return _PUBLIC_PATTERN.fullmatch(text) is not None


class Secret(str):
    """A text that `repr` does not show and msgspec does not encode; `str` gives it, for those who have to type it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(...)"


def new_secret() -> Secret:
    return Secret(secrets.token_urlsafe(32))
