"""A browser without a window, driven over its own debugging protocol through a pair of pipes."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.stolen_time import own_time_s

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ANSWER_S = 60.0
#: Without a window, on a machine that may have neither a network nor a processor to spare: nothing is fetched, updated
#: or kept ready that no page has asked for.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-extensions",
    "--disable-sync", "--disable-features=SpareRendererForSitePerProcess",
)  # fmt: skip


class PageLeft(Exception):
    """The page was left before it had answered."""


class ScriptFailed(AssertionError):
    """What it looks for is not there, or not yet."""


class Browser:
    """One page of one browser. The protocol: JSON, each message ended by a zero byte, on descriptors 3 and 4."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM is not None
        command_reader, self._commands = os.pipe()
        self._answers, answer_writer = os.pipe()
        # The shell puts the pipes where the browser looks for them.
        script = f'exec "$0" "$@" 3<&{command_reader} 4>&{answer_writer}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, PROGRAM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(command_reader, answer_writer),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_reader)
        os.close(answer_writer)
        self._buffer = b""
        self._number = 0
        self._session = ""
        #: What the page complained about: uncaught errors, broken policies.
        self.complaints: list[str] = []
        #: How often the browser dropped all its connections, since the machine got or lost an interface.
        self.network_changes = 0
        #: Every address that the page asked for.
        self.requests: list[str] = []
        target = self._tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._tell(f"{domain}.enable")

    def look(self, width: int = 1280, height: int = 900, *features: tuple[str, str]) -> None:
        """The size of the window, and what the user prefers; the page knows it afterwards."""
        self._tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        wishes = [{"name": name, "value": value} for name, value in features]
        self._tell("Emulation.setEmulatedMedia", features=wishes)
        known = [f"matchMedia('({name}: {value})').matches" for name, value in features]
        self.wait_for(" && ".join([f"innerWidth === {width}", *known]))

    def hide_scrollbars(self) -> None:
        self._tell("Emulation.setScrollbarsHidden", hidden=True)

    def trust_every_certificate(self) -> None:
        self._tell("Security.setIgnoreCertificateErrors", ignore=True)

    def open(self, address: str) -> None:
        self._tell("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        """The value of a script in the page; a promise is waited for."""
        answer = self._tell("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise ScriptFailed(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait_for(self, script: str, within_s: float = 60.0) -> Any:
        deadline = own_time_s() + within_s
        shown = None
        while True:
            # Between two pages none of them may be there to answer.
            with suppress(PageLeft, ScriptFailed):
                if value := self.run(script):
                    return value
                shown = self.run("document.body && document.body.innerText")
            assert own_time_s() < deadline, f"{script} did not come true; {self.complaints}; it shows:\n{shown}"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """As a person would: what a key does by itself, such as to press a button, it does here as well."""
        code = {"Tab": 9, "Enter": 13, "Escape": 27}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        with suppress(PageLeft):  # the key may be what leads away
            self._tell("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
            self._tell("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        self._tell("Input.insertText", text=text)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._tell("Page.captureScreenshot", format="png")["data"]))

    def picture(self, path: Path) -> None:
        """The same, as small as a page of the docs wants it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self._tell("Page.captureScreenshot", format="webp", quality=80)["data"]))

    def close(self) -> None:
        os.close(self._commands)
        os.close(self._answers)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + ANSWER_S
        while True:
            heard = self._hear(deadline)
            if heard.get("id") == self._number:
                if "navigated" in heard.get("error", {}).get("message", ""):
                    raise PageLeft(method)
                assert "error" not in heard, heard
                result: dict[str, Any] = heard["result"]
                return result
            self._note(heard)

    def _hear(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left_s = deadline - time.monotonic()
            assert left_s > 0, "the browser does not answer"
            assert select.select([self._answers], [], [], left_s)[0], "the browser does not answer"
            piece = os.read(self._answers, 1 << 20)
            assert piece, "the browser is gone"
            self._buffer += piece
        frame, _, self._buffer = self._buffer.partition(b"\0")
        heard: dict[str, Any] = json.loads(frame)
        return heard

    def _note(self, heard: dict[str, Any]) -> None:
        parameters = heard.get("params", {})
        if heard.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif heard.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            if "ERR_NETWORK_CHANGED" in parameters["entry"]["text"]:
                self.network_changes += 1
            else:
                self.complaints.append(parameters["entry"]["text"])
        elif heard.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("there is no Chromium on this machine")
    opened = Browser(tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()
