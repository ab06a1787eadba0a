"""Chromium without a screen, driven over its DevTools protocol; started once for all tests."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-sync", "--disable-background-networking", "--disable-component-update"),
    *("--disable-dev-shm-usage", "--disable-default-apps", "--disable-extensions"),
    *("--hide-scrollbars", "--force-device-scale-factor=1"),
)
DESKTOP, PHONE = (1280, 900), (390, 844)
SECONDS = 30.0  # for an answer


def program():
    """Where a browser is; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def required():
    """Whether tests must not be skipped for want of a browser."""
    return bool(os.environ.get("CI")) or os.environ.get("MDPNEWTON_BROWSER") == "required"


class Browser:
    """A browser with a profile of its own; `page` opens an address in a new tab."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="mdpnewton-browser-")
        command = [program(), *QUIET, f"--user-data-dir={self.profile}"]
        self.process = subprocess.Popen(
            [*command, "--remote-debugging-port=0", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        port, path = self._address()
        address = f"ws://127.0.0.1:{port}{path}"
        self.open = ExitStack()
        self.socket = self.open.enter_context(
            connect(address, max_size=2**28, origin=None, compression=None)
        )
        self.number, self.events = 0, []

    def _address(self):
        told = Path(self.profile) / "DevToolsActivePort"
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if told.exists() and len(told.read_text().splitlines()) == 2:
                return told.read_text().splitlines()
            assert self.process.poll() is None, "the browser ended"
            time.sleep(0.05)
        raise TimeoutError("the browser does not answer")

    def call(self, method, session=None, **parameters):
        """The answer to a command; events that come before it are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        self.socket.send(json.dumps(message | ({"sessionId": session} if session else {})))
        while True:
            found = json.loads(self.socket.recv(timeout=SECONDS))
            if found.get("id") == self.number:
                assert "error" not in found, (method, found["error"])
                return found["result"]
            self.events.append(found)

    def page(self, address, size=DESKTOP, dark=False):
        """A new tab that shows an address."""
        return Page(self, address, size, dark)

    def close(self):
        """End the browser that was started here."""
        self.open.close()
        self.process.terminate()
        self.process.wait(SECONDS)
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    """A tab: what it shows, what it complains of and what it asks for."""

    def __init__(self, browser, address, size, dark):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self.target, self.session = target, attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.address = address
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def resize(self, size):
        width, height = size
        phone = width < 600
        about = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.call("Emulation.setDeviceMetricsOverride", **about)

    def run(self, script):
        """The value of a script."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition, seconds=SECONDS):
        """Until a script is true."""
        end = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.03)

    def mouse(self, kind, x, y, button="left", buttons=0):
        """Move, press or release the mouse."""
        about = {"x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, **about)

    def press(self, key):
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, whole=True):
        """What is to be seen, as PNG."""
        more = {"captureBeyondViewport": True} if whole else {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            more["clip"] = clip
        found = self.call("Page.captureScreenshot", format="png", **more)
        return base64.b64decode(found["data"])

    def complaints(self):
        """Errors, warnings and violations of the policy so far."""
        self.run("1")
        kinds = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
        advice = "willReadFrequently"  # for our own look at the pixels
        every = [one for one in self._mine() if one["method"] in kinds]
        return [one for one in every if advice not in json.dumps(one)]

    def requests(self):
        """Addresses that were asked for, without the page itself and data within it."""
        self.run("1")
        sent = [one for one in self._mine() if one["method"] == "Network.requestWillBeSent"]
        every = [one["params"]["request"]["url"] for one in sent]
        inner = ("data:", "blob:", "about:")
        return [one for one in every if one != self.address and not one.startswith(inner)]

    def _mine(self):
        return [one for one in self.browser.events if one.get("sessionId") == self.session]
