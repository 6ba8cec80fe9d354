"""A broker played by hand: a ROUTER in a thread that answers admins from a real edit set with toy signatures."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

import msgspec
import pytest
import zmq

from famulus.cli import main
from famulus.core.config import schema
from famulus.core.config.choice import choose
from famulus.core.config.clock import COUNT_BITS, time_ms
from famulus.core.config.draft import Author, Draft, Moved, check, make, parents_for
from famulus.core.config.edit import SignedEdit, sign
from famulus.core.config.edit_set import EditSet, network_of
from famulus.core.config.effective import effective
from famulus.wire import headers

NAME = "b1"
PASSWORD = "swordfish-7"
NEW_PASSWORD = "marlin-8"
#: Of every toy hash.
HASH_MARK = "toyhash"
#: 2026-01-01, and a second more for each edit.
BEGIN_MS = 1_767_225_600_000


def toy_key(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def toy_sign(name: str) -> Callable[[bytes], bytes]:
    return lambda data: sha256(toy_key(name).encode() + data).digest()


def toy_verify(public_key: str, data: bytes, signature: bytes) -> bool:
    return sha256(public_key.encode() + data).digest() == signature


def toy_hash(password: str) -> str:
    return f"{HASH_MARK}:{sha256(password.encode()).hexdigest()}"


class Refusal(Exception):
    def __init__(self, reason: str, body: object = None) -> None:
        super().__init__(reason)
        self.body = {} if body is None else body


@dataclass
class Peer:
    """Another broker: it has an edit after so many questions about it."""

    alive: bool = True
    questions_left: int = 0


@dataclass
class PlayedBroker:
    peers: dict[str, Peer] = field(default_factory=dict)
    #: What was asked, without the passwords.
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    #: Done once, before the next edit is looked at: somebody else is faster.
    meanwhile: Callable[[], object] | None = None
    #: Instead of any answer: a header, or silence if it is empty.
    answer: bytes | None = None
    #: What is answered to this command, after it was done: nothing if there are no bytes.
    spoiled: tuple[str, bytes] = ("", b"")
    faulty: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.network = network_of(toy_key(NAME))
        self.edits = EditSet(self.network, toy_verify)
        self._nonce = 0
        self._stop = threading.Event()
        self._bound = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self.address = ""
        self.put(f"broker/{NAME}", {"family": "main", "host": "127.0.0.1", "public_key": toy_key(NAME)}, "root")
        self.put("family/main", {}, "root")
        self.put("admin/main/ann", {"hash": toy_hash(PASSWORD)}, "root")

    # -- the config ---------------------------------------------------------------------------------------------

    def put(self, key: str, value: Any, author: str = "ann", parents: tuple[str, ...] | None = None) -> str:
        return self._add(Draft(key, "PUT", value, self._heads(key) if parents is None else parents), author)

    def delete(self, key: str, author: str = "ann", parents: tuple[str, ...] | None = None) -> str:
        return self._add(Draft(key, "DEL", None, self._heads(key) if parents is None else parents), author)

    def value(self, key: str) -> Any:
        chosen = choose(self.edits.heads(key)).edit
        return chosen.value if chosen.op == "PUT" else None

    def heads(self, key: str) -> list[str]:
        return [signed.id for signed in self.edits.heads(key)]

    def commands(self) -> list[str]:
        return [command for command, _ in self.requests]

    def _heads(self, key: str) -> tuple[str, ...]:
        return parents_for(self.edits, key)

    def _add(self, draft: Draft, author: str) -> str:
        signed = self._signed(draft, author)
        added = self.edits.add([signed])
        assert added.new == (signed,), added
        return signed.id

    def _signed(self, draft: Draft, author: str) -> SignedEdit:
        self._nonce += 1
        grant = self.edits.grant_of(NAME, toy_key(NAME))
        hlc = (BEGIN_MS + 1000 * self._nonce) << COUNT_BITS
        return sign(make(draft, Author(author), self.network, NAME, grant, hlc, f"{self._nonce:016x}"), toy_sign(NAME))

    # -- the socket ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()
        assert self._bound.wait(5)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _serve(self) -> None:
        with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
            socket.linger = 0
            port = socket.bind_to_random_port("tcp://127.0.0.1")
            self.address = f"tcp://127.0.0.1:{port}"
            self._bound.set()
            while not self._stop.is_set():
                if socket.poll(10):
                    peer, envelope, header, body = socket.recv_multipart()
                    for frames in self._answers(header, body):
                        socket.send_multipart([peer, envelope, *frames])

    def _answers(self, header: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
        request = headers.read(header)
        assert isinstance(request, headers.ManageRequest)
        arguments = msgspec.json.decode(body)
        password = arguments.pop("password")
        self.requests.append((request.command, arguments))
        if self.answer is not None:
            return [(self.answer, b"")] if self.answer else []
        try:
            self._check_password(request.username, password)
            result = getattr(self, f"_on_{request.command}")(request.username, **arguments)
        except Refusal as error:
            refused = headers.write("MANAGE", "RESPONSE", outcome="REJECTED", reason=str(error))
            return [(refused, msgspec.json.encode(error.body))]
        if request.command == self.spoiled[0]:
            return [(self.spoiled[1], b"")] if self.spoiled[1] else []
        return [(headers.write("MANAGE", "RESPONSE", outcome="OK"), msgspec.json.encode(result))]

    def _check_password(self, username: str, password: str) -> None:
        admin = effective(self.edits).admins.get("main", {}).get(username)
        if admin is None or admin.hash != toy_hash(password):
            raise Refusal("not_allowed: wrong name or password")

    # -- the commands -------------------------------------------------------------------------------------------

    def _on_show(self, _: str, prefix: str) -> dict[str, Any]:
        config = effective(self.edits)
        keys = self.edits.keys()
        return {
            "network": self.network,
            "broker": NAME,
            "version": self.edits.version,
            "digest": self.edits.digest,
            "keys": {key: self._key(key) for key in keys if key.startswith(prefix)},
            "conflicts": [conflict.key for conflict in config.conflicts],
            "warnings": msgspec.to_builtins(config.warnings),
            "brokers": {identity: self._broker(identity) for identity in config.brokers},
        }

    def _key(self, key: str) -> dict[str, Any]:
        chosen = choose(self.edits.heads(key))
        heads = [{**self._edit_facts(head), "chosen": head is chosen} for head in self.edits.heads(key)]
        return {"op": chosen.edit.op, "value": self._edit_facts(chosen)["value"], "heads": heads}

    def _edit_facts(self, signed: SignedEdit) -> dict[str, Any]:
        edit = signed.edit
        hidden = edit.key.startswith("admin/") and edit.op == "PUT"
        return {
            "id": signed.id,
            "op": edit.op,
            "value": {"hash": "hidden"} if hidden else edit.value,
            "author": edit.author,
            "broker": edit.broker,
            "hlc": edit.hlc,
        }

    def _broker(self, identity: str) -> dict[str, Any]:
        config = effective(self.edits)
        peer = self.peers.get(identity, Peer())
        same = peer.alive and not peer.questions_left
        return {
            "family": config.brokers[identity].family,
            "state": config.broker_states[identity],
            "alive": peer.alive,
            "version": self.edits.version if same else 1,
            "digest": self.edits.digest if same else "0" * 64,
            "same": same,
        }

    def _on_history(self, _: str, key: str) -> dict[str, Any]:
        edits = [
            {
                **self._edit_facts(signed),
                "parents": list(signed.edit.parents),
                "time_ms": time_ms(signed.edit.hlc),
            }
            for signed in self.edits.history(key)
        ]
        return {"key": key, "edits": edits}

    def _on_edit(self, author: str, drafts: list[dict[str, Any]], dry_run: bool = False) -> dict[str, Any]:
        if self.meanwhile is not None:
            self.meanwhile()
            self.meanwhile = None
        wished = msgspec.convert(drafts, list[Draft])
        moved = [found for draft in wished if (found := check(self.edits, draft)) is not None]
        if moved:
            raise Refusal("conflict: the config has changed since you looked", {"moved": _moved(moved)})
        made = [] if dry_run else [self._add(draft, author) for draft in wished]
        warnings = [
            {"key": draft.key, "sentence": sentence}
            for draft in wished
            if draft.op == "PUT"
            for sentence in schema.read(schema.subject(draft.key), draft.value).warnings
        ]
        brokers = 1 + len(self.peers)
        facts = {"version": self.edits.version, "digest": self.edits.digest, "seen": 1, "brokers": brokers}
        return {"edits": made, **facts, "warnings": warnings}

    def _on_seen(self, _: str, edits: list[str]) -> dict[str, Any]:
        assert all(edit in self.edits for edit in edits)
        missing = sorted(name for name, peer in self.peers.items() if not peer.alive or peer.questions_left)
        for peer in self.peers.values():
            peer.questions_left = max(0, peer.questions_left - 1)
        return {"seen": 1 + len(self.peers) - len(missing), "brokers": 1 + len(self.peers), "missing": missing}

    def _on_set_password(self, author: str, family: str, name: str, new_password: str, parents: Any) -> dict[str, Any]:
        self.requests[-1][1]["new_password"] = "taken"
        value = {"hash": toy_hash(new_password)}
        draft = {"key": f"admin/{family}/{name}", "op": "PUT", "value": value, "parents": parents}
        return self._on_edit(author, [draft])

    def _on_errors(self, _: str) -> dict[str, Any]:
        return {"workers": [{"identity": identity, **facts} for identity, facts in self.faulty.items()]}

    def _on_errors_clear(self, _: str, identity: str | None) -> dict[str, Any]:
        gone = [name for name in self.faulty if identity in (None, name)]
        for name in gone:
            del self.faulty[name]
        return {"cleared": len(gone)}


def _moved(moved: list[Moved]) -> Any:
    return msgspec.to_builtins(moved)


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)


class Command(Protocol):
    def __call__(self, *words: str, stdin: str = "") -> Result: ...


@pytest.fixture
def broker() -> Iterator[PlayedBroker]:
    played = PlayedBroker()
    played.start()
    yield played
    played.stop()


@pytest.fixture
def famulus(broker: PlayedBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command as people run it, by Ann. Whatever it prints, it prints no secret."""
    monkeypatch.setenv("FAMULUS_FRONTEND", broker.address)
    monkeypatch.setenv("FAMULUS_ADMIN", "ann")
    monkeypatch.setenv("FAMULUS_ADMIN_PASSWORD", PASSWORD)

    def run(*words: str, stdin: str = "") -> Result:
        monkeypatch.setattr(sys, "argv", ["famulus", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            main.run()
        out, err = capsys.readouterr()
        for secret in (PASSWORD, NEW_PASSWORD, HASH_MARK):
            assert secret not in out + err
        assert "Traceback" not in err
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, out, err)

    return run
