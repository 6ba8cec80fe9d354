"""Passwords of admins: the keys derived from them, and how they are checked.

An admin's password is the seed of an Ed25519 key, by way of argon2id with a salt. What is stored is the salt, the costs
and the public half: the right password is the one that gives this half, and the other half proves whose an edit is.
Networks that were made before edits had proofs store a hash, which is still understood.

Checking takes tens of milliseconds on purpose: it must not be done in a process that handles tasks.
"""

from __future__ import annotations

import re
import secrets
import unicodedata

from nacl.exceptions import CryptoError
from nacl.pwhash import argon2id
from nacl.signing import SigningKey

from famulus.broker.keys import KeyPair
from famulus.core.config.schema import Admin
from famulus.core.steward.commands import Unlocked
from famulus.errors import SettingsError

PASSWORD_BYTES_MAX = 1024
#: What OWASP recommends for argon2id.
MEMORY_KIB = 19_456
PASSES = 2
#: A hash may come from elsewhere, and specifies itself what it costs to check. This much takes well under a second.
MEMORY_KIB_MAX = 65_536
PASSES_MAX = 4
#: Of an Ed25519 key.
SEED_BYTES = 32

#: The beginning of an argon2id hash: how a key is derived from a password. The public key replaces the rest.
_DERIVATION = "$argon2id$v=19$m={},t={},p=1${}"
_DERIVATION_PATTERN = re.compile(r"\$argon2id\$v=19\$m=([0-9]{1,9}),t=([0-9]{1,9}),p=1\$([0-9a-f]{32})")
_HASH_PATTERN = re.compile(r"\$argon2id\$v=19\$m=([0-9]{1,9}),t=([0-9]{1,9}),p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}")


def unlock(admin: Admin, password: str) -> Unlocked | None:
    """What the right password gives; None if it is wrong."""
    if not admin.public_key:
        return Unlocked() if check_password(admin.hash, password) else None
    key = derive_key(admin.hash, password)
    # Public keys are not secret: nobody learns anything from how long this takes.
    return Unlocked(key.sign) if key is not None and key.public == admin.public_key else None


def new_admin(password: str) -> dict[str, str]:
    """What the config stores for an admin with this password."""
    how = _DERIVATION.format(MEMORY_KIB, PASSES, secrets.token_hex(argon2id.SALTBYTES))
    key = derive_key(how, password)
    if key is None:
        raise SettingsError(f"password: expected 1 to {PASSWORD_BYTES_MAX} bytes of UTF-8")
    return {"hash": how, "public_key": key.public}


def derive_key(how: str, password: str) -> KeyPair | None:
    """What an admin signs with, for the duration of one request; None if `how` or the password is invalid."""
    data = _encoded(password)
    costs = _DERIVATION_PATTERN.fullmatch(how)
    if data is None or costs is None or not _is_affordable(costs):
        return None
    memory, passes, salt = int(costs[1]) * 1024, int(costs[2]), bytes.fromhex(costs[3])
    try:
        return KeyPair(SigningKey(argon2id.kdf(SEED_BYTES, data, salt, opslimit=passes, memlimit=memory)))
    except (CryptoError, ValueError):
        return None


def check_password(hashed: str, password: str) -> bool:
    """Whether it is this password. If anything is wrong with either, the answer is no."""
    data = _encoded(password)
    costs = _HASH_PATTERN.fullmatch(hashed)
    if data is None or costs is None or not _is_affordable(costs):
        return False
    try:
        return argon2id.verify(hashed.encode("ascii"), data)
    except CryptoError:
        return False


def _is_affordable(costs: re.Match[str]) -> bool:
    return int(costs[1]) <= MEMORY_KIB_MAX and int(costs[2]) <= PASSES_MAX


def _encoded(password: str) -> bytes | None:
    """None if it cannot be a password."""
    # Before anything else, so that nobody can make us normalise megabytes.
    if len(password) > PASSWORD_BYTES_MAX:
        return None
    try:
        # One keyboard sends "é" as one character, another as two.
        data = unicodedata.normalize("NFC", password).encode()
    except UnicodeEncodeError:
        return None
    return data if 1 <= len(data) <= PASSWORD_BYTES_MAX else None
