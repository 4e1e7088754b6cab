"""A headless Chromium that does what it is told, over its DevTools protocol: JSON messages on two pipes, each ended by
a zero byte. A page is opened as a file; what it logs, throws and asks the network for is kept.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_S

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe",
)  # fmt: skip


def find() -> str | None:
    """The browser's path, where there is one."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


class Tab:
    """One page. `complaints` are errors and warnings of the console, exceptions, and requests that failed; `requests`
    the addresses of all that it asked for.
    """

    def __init__(self, write: int, read: int) -> None:
        self._write = write
        self._read = read
        self._buffer = b""
        self._number = 0
        self._target: str | None = None
        self._session: str | None = None
        self._loaded = False
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def attach(self) -> None:
        """A page that has nothing of the one before: a live page that is left goes on asking its server, which may be
        gone by then, and its complaints would be taken for those of the next page.
        """
        left, self._session = self._target, None
        self._target = self.call("Target.createTarget", url="about:blank")["targetId"]
        if left is not None:
            self.call("Target.closeTarget", targetId=left)
        self._session = self.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, path: Path | str, width: int, height: int, *, dark: bool, phone: bool = False) -> None:
        """A file or an address, as on a screen of that size; returns when it is loaded."""
        self.attach()
        self.complaints.clear()
        self.requests.clear()
        self._loaded = False
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        deadline = time.monotonic() + PATIENCE_S
        while not self._loaded:
            self._event(self._message(deadline))

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """PNG of what is to be seen, or of the whole page."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._message(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._event(answer)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            readable, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            assert readable, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _event(self, message: dict[str, Any]) -> None:
        if message.get("sessionId") != self._session:
            return
        name, told = message.get("method"), message.get("params", {})
        if name == "Page.loadEventFired":
            self._loaded = True
        elif name == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"].get("exception", {}).get("description")))
        elif name == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(each.get("value", each.get("description"))) for each in told["args"]))
        elif name == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])
        elif name == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])


#: The protocol wants descriptors 3 and 4.
_ARRANGE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def _pipe() -> tuple[int, int]:
    """One whose descriptors are none of those that the browser wants."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """A browser with an empty profile, for the time of the `with`."""
    path = find()
    assert path is not None
    (to_browser, us_to), (from_browser, browser_to) = _pipe(), _pipe()
    arrange = [sys.executable, "-c", _ARRANGE, str(to_browser), str(browser_to)]
    command = [*arrange, path, *_FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command, pass_fds=(to_browser, browser_to), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_browser)
    os.close(browser_to)
    try:
        tab = Tab(us_to, from_browser)
        tab.attach()
        yield tab
    finally:
        os.close(us_to)  # it ends with its pipe
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)
        os.close(from_browser)
