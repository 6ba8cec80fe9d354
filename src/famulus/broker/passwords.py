"""Passwords of admins: how they are kept, how they are checked, and how long to wait after a wrong one.

Checking takes tens of milliseconds on purpose: it belongs in no process that carries tasks.
"""

from __future__ import annotations

import re
import unicodedata
from collections import OrderedDict
from dataclasses import dataclass

from nacl.exceptions import CryptoError
from nacl.pwhash import argon2id

from famulus.core.clock import NS_PER_S
from famulus.errors import SettingsError

PASSWORD_BYTES_MAX = 1024
#: What OWASP advises for argon2id.
MEMORY_KIB = 19_456
PASSES = 2
#: A hash may come from elsewhere, and says itself what it costs to check. This much takes well under a second.
MEMORY_KIB_MAX = 65_536
PASSES_MAX = 4

DELAY_FIRST_NS = 1 * NS_PER_S
DELAY_MAX_NS = 300 * NS_PER_S
#: To push an account out of the list, so many others have to fail: with their checks, longer than the longest delay.
ACCOUNTS_MAX = 10_000

_HASH_PATTERN = re.compile(r"\$argon2id\$v=19\$m=([0-9]{1,9}),t=([0-9]{1,9}),p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}")


def hash_password(password: str) -> str:
    data = _encoded(password)
    if data is None:
        raise SettingsError(f"password: expected 1 to {PASSWORD_BYTES_MAX} bytes of UTF-8")
    return argon2id.str(data, opslimit=PASSES, memlimit=MEMORY_KIB * 1024).decode("ascii")


def check_password(hashed: str, password: str) -> bool:
    """Whether it is this password. Whatever is wrong with either, it is not."""
    data = _encoded(password)
    costs = _HASH_PATTERN.fullmatch(hashed)
    if data is None or costs is None or int(costs[1]) > MEMORY_KIB_MAX or int(costs[2]) > PASSES_MAX:
        return False
    try:
        return argon2id.verify(hashed.encode("ascii"), data)
    except CryptoError:
        return False


def _encoded(password: str) -> bytes | None:
    """None if it cannot be a password."""
    # First of all, so that nobody makes us normalise megabytes.
    if len(password) > PASSWORD_BYTES_MAX:
        return None
    try:
        # One keyboard sends "é" as one character, another as two.
        data = unicodedata.normalize("NFC", password).encode()
    except UnicodeEncodeError:
        return None
    return data if 1 <= len(data) <= PASSWORD_BYTES_MAX else None


@dataclass(slots=True)
class _Entry:
    count: int
    until_ns: int


class Failures:
    """Failed logins by account. Each doubles the wait until the next try, up to a bound; a success ends it.

    The list is bounded: when it is full, the account that has not failed for longest makes room.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def failed(self, account: str, now_ns: int) -> int:
        """Note a wrong password; how long this account has to wait now."""
        entry = self._entries.setdefault(account, _Entry(0, 0))
        self._entries.move_to_end(account)
        if len(self._entries) > ACCOUNTS_MAX:
            self._entries.popitem(last=False)
        delay_ns = min(DELAY_FIRST_NS << min(entry.count, 20), DELAY_MAX_NS)
        entry.count += 1
        entry.until_ns = now_ns + delay_ns
        return delay_ns

    def succeeded(self, account: str) -> None:
        self._entries.pop(account, None)

    def wait_ns(self, account: str, now_ns: int) -> int:
        """How much longer no password of this account is looked at; 0 if one may be tried."""
        entry = self._entries.get(account)
        return max(0, entry.until_ns - now_ns) if entry is not None else 0

    def __len__(self) -> int:
        return len(self._entries)
