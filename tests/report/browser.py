"""A headless Chromium, spoken to by WebDriver, which is JSON over HTTP on the loopback interface."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from urllib.request import ProxyHandler, Request, build_opener

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_OPENER = build_opener(ProxyHandler({}))
KEYS = {
    "Tab": "\ue004",
    "Enter": "\ue007",
    "Escape": "\ue00c",
    "Left": "\ue012",
    "Up": "\ue013",
    "Right": "\ue014",
    "Down": "\ue015",
}


def missing() -> str:
    """What is not installed, "" if nothing."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    absent = [
        name
        for name, path in [("chromium", chromium), ("chromedriver", shutil.which("chromedriver"))]
        if not path
    ]
    return f"{' and '.join(absent)} not found (Debian: chromium, chromium-driver)" if absent else ""


@contextmanager
def browser():
    """Starts a browser that reaches nothing but files, and ends it."""
    command = [shutil.which("chromedriver"), "--port=0"]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = next(m[1] for line in driver.stdout if (m := re.search(r"successfully on port (\d+)", line)))
        base = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        arguments += ["--proxy-server=127.0.0.1:9", "--disable-background-networking"]
        binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        options = {"binary": binary, "args": arguments}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = _call("POST", f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})
        opened = Browser(f"{base}/session/{made['sessionId']}")
        try:
            yield opened
        finally:
            _call("DELETE", opened.session)
    finally:
        driver.terminate()
        driver.wait(timeout=30)
        driver.stdout.close()


class Browser:
    def __init__(self, session):
        self.session = session

    def open(self, path, *, width=1280, height=900, scheme="light"):
        self._cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self._cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        _call("POST", f"{self.session}/url", {"url": path.as_uri()})

    def js(self, script, *arguments):
        return _call("POST", f"{self.session}/execute/sync", {"script": script, "args": list(arguments)})

    def press(self, *names):
        actions = [{"type": kind, "value": KEYS[name]} for name in names for kind in ("keyDown", "keyUp")]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        _call("POST", f"{self.session}/actions", {"actions": [keyboard]})

    def click(self, selector):
        found = _call("POST", f"{self.session}/element", {"using": "css selector", "value": selector})
        _call("POST", f"{self.session}/element/{found[_ELEMENT]}/click", {})

    def until(self, script):
        """Waits for something that the page does after an event."""
        for _ in range(200):
            if self.js(script):
                return
            time.sleep(0.02)
        raise AssertionError(f"never true: {script}")

    def picture(self):
        return _call("GET", f"{self.session}/screenshot")

    def tree(self):
        """The accessibility tree, as a screen reader is told it: pairs of role and name."""
        nodes = self._cdp("Accessibility.getFullAXTree")["nodes"]
        return [
            (node.get("role", {}).get("value"), node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored")
        ]

    def complaints(self):
        """What the browser logged: errors, and refusals of the content security policy."""
        return [entry["message"] for entry in _call("POST", f"{self.session}/se/log", {"type": "browser"})]

    def _cdp(self, command, **parameters):
        return _call("POST", f"{self.session}/goog/cdp/execute", {"cmd": command, "params": parameters})


def _call(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method=method)
    with _OPENER.open(request, timeout=60) as answer:
        return json.load(answer)["value"]
