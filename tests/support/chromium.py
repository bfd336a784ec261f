"""A real browser for tests: Chromium without a window, spoken to through a pipe in its own protocol (CDP).

`with Browser() as browser: page = browser.open(path)`; where no Chromium is installed, the test is skipped.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35, "Enter": 13, "Escape": 27, "Tab": 9}


class Browser:
    """One process of Chromium."""

    def __init__(self):
        found = next((path for path in map(shutil.which, NAMES) if path), None)
        if found is None:
            pytest.skip("no Chromium is installed")
        self.folder = tempfile.mkdtemp(prefix="minitorch-chromium-")
        from_us, self.to = os.pipe()
        self.back, to_us = os.pipe()
        # Away from 3 and 4, which Chromium reads and writes.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (from_us, to_us)]
        options = "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage --hide-scrollbars"
        launch = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
            "os.execv(sys.argv[3], sys.argv[3:])"
        )
        line = [found, *options.split(), "--remote-debugging-pipe", f"--user-data-dir={self.folder}"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", launch, *map(str, high), *line],
            pass_fds=high, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (from_us, to_us, *high):
            os.close(end)
        self.number, self.buffer = 0, b""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.folder, ignore_errors=True)

    def send(self, method, session=None, **parameters):
        """Call a method of the protocol, and return its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _receive(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.back], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            data = os.read(self.back, 1 << 16)
            assert data, "Chromium has ended"
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path, width=1280, height=800, dark=False):
        """Open a file, and wait until its script says that it is ready."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        page.size(width, height)
        scheme = "dark" if dark else "light"
        self.send(
            "Emulation.setEmulatedMedia",
            session,
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self.send("Network.enable", session)
        self.send("Network.emulateNetworkConditions", session, offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)  # fmt: skip
        self.send("Page.navigate", session, url=Path(path).resolve().as_uri())
        page.wait("document.documentElement?.dataset.ready === 'yes'")
        return page


class Page:
    """One tab."""

    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def send(self, method, **parameters):
        return self.browser.send(method, self.session, **parameters)

    def size(self, width, height):
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def run(self, script):
        """Evaluate JavaScript, and return its value."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < deadline, f"never true: {condition}"
            time.sleep(0.02)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def press(self, key):
        """A key goes down and up, as from a keyboard."""
        code = KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        common = {"key": key, "windowsVirtualKeyCode": code}
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, words):
        self.send("Input.insertText", text=words)

    def place(self, selector):
        """The middle of an element, in the window."""
        box = self.run(
            f"(b => [b.left + b.width / 2, b.top + b.height / 2])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        return {"x": box[0], "y": box[1]}

    def click(self, selector):
        """The mouse goes there and clicks."""
        at = self.place(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
            self.send("Input.dispatchMouseEvent", type=kind, **at, **button)

    def hover(self, selector):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", **self.place(selector))

    def picture(self, path):
        """Write what is seen as a PNG file."""
        data = self.send("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(data))
