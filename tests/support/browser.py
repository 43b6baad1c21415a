"""A headless Chromium, driven through the DevTools protocol over a pipe.

Only what the tests of HTML pages need: open a file, evaluate JavaScript, press keys, take pictures,
and collect all that goes wrong on the page.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tools import tool

PATIENCE = 300.0
"""Seconds to wait for an answer."""

# The protocol wants descriptors 3 and 4; this puts them there and becomes the browser.
_SHIM = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD_CLOEXEC, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)


def executable() -> str:
    """The browser's program."""
    return tool("chromium", "chromium-browser", "google-chrome")


class Browser:
    """One browser with one page; a context manager.

    Attributes:
        faults: exceptions, console errors and violated policies of the pages, as text.
        requests: the addresses that were asked for.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.requests: list[str] = []
        self._buffer = b""
        self._number = 0
        self._session: str | None = None

    def __enter__(self) -> Browser:
        program = executable()
        self._profile = tempfile.mkdtemp(prefix="browser-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        ends = [str(theirs_in), str(theirs_out)]
        browser = [program, *_FLAGS, f"--user-data-dir={self._profile}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SHIM, *ends, *browser],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self._call(f"{domain}.enable")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        os.close(self._out)
        os.close(self._in)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=PATIENCE)
        shutil.rmtree(self._profile, ignore_errors=True)

    # --- the page --------------------------------------------------------------------------------

    def open(
        self, address: str, *, width: int = 1400, height: int = 900, dark: bool = False
    ) -> None:
        """Shows a page of that size in a light or dark scheme; returns when it has loaded."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        # by way of an empty page, since another fragment of the same address would not load again
        for step in ("about:blank", address):
            self._call("Page.navigate", url=step)
            self._wait_for(step)
        self.settle()

    def settle(self) -> None:
        """Waits until two frames were drawn."""
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def evaluate(self, script: str) -> Any:
        """The value of an expression; promises are awaited.

        Raises:
            AssertionError: where it throws.
        """
        answer = self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Presses a key: a character, or a name such as ArrowDown."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def type(self, text: str) -> None:
        """Puts text where the focus is."""
        self._call("Input.insertText", text=text)
        self.settle()

    def click(self, selector: str) -> None:
        """Clicks the middle of the first element."""
        x, y = self.evaluate(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def screenshot(self, path: Path) -> None:
        """Writes a PNG of what is seen."""
        picture = self._call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(picture))

    # --- the protocol ----------------------------------------------------------------------------

    def _call(self, method: str, **parameters: Any) -> Any:
        answer = self._exchange(method, parameters)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _exchange(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Sends a command; gives the answer, which may be an error."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode("utf-8") + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._number:
                return answer

    def _wait_for(self, address: str) -> None:
        """Waits until a page has loaded; while one takes the place of another there is none."""
        deadline = time.monotonic() + PATIENCE
        script = "document.readyState === 'complete' ? location.href : ''"
        while time.monotonic() < deadline:
            answer = self._exchange("Runtime.evaluate", {"expression": script})
            if answer.get("result", {}).get("result", {}).get("value") == address:
                return
            time.sleep(0.02)
        raise AssertionError(f"{address} does not load")

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._in, 1 << 16)
            assert piece, "the browser has ended"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method is None:
            return
        if method == "Runtime.exceptionThrown":
            self.faults.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.faults.append(json.dumps(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.faults.append(json.dumps(parameters["entry"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
