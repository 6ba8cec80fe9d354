"""Toy signatures: whoever knows the public key could forge them, and nobody in the invented world does."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b


def signer(public_key: str) -> Callable[[bytes], bytes]:
    return lambda message: _signature(public_key, message)


def verify(public_key: str, message: bytes, signature: bytes) -> bool:
    return _signature(public_key, message) == signature


def _signature(public_key: str, message: bytes) -> bytes:
    return blake2b(message, key=public_key.encode()[:64], digest_size=16).digest()
