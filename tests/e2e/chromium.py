"""Drives Debian's Chromium without a window, over the two pipes of its debugging protocol. Standard library only."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ.get("ISTHMUS_CHROMIUM") or shutil.which("chromium")


def or_skip():
    """If there is no Chromium, reports that the test was not run, and ends."""
    if not PROGRAM:
        print("NOT RUN: there is no chromium; `tools/setup --view` installs it")
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(0)


class Browser:
    """A browser with one page. Use it with `with`."""

    def __init__(self, width=1200, height=900):
        self.size = width, height

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"), ignore_cleanup_errors=True)
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()

        def connect():  # the browser reads from 3 and writes to 4
            inp, out = os.dup(to_browser), os.dup(from_browser)
            os.dup2(inp, 3)
            os.dup2(out, 4)

        command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
                   "--disable-dev-shm-usage", "--disable-background-networking", "--enable-precise-memory-info", "--js-flags=--expose-gc",
                   f"--user-data-dir={self.folder.name}", f"--window-size={self.size[0]},{self.size[1]}", "about:blank"]
        self.process = subprocess.Popen(command, preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.last_id, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Network", "Log":
            self.call(domain + ".enable")
        self.resize(*self.size)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.inp)
        self.folder.cleanup()

    def _message(self, timeout):
        end = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.inp], [], [], left)[0]:
                raise TimeoutError(f"the browser said nothing for {timeout} s")
            part = os.read(self.inp, 1 << 20)
            if not part:
                raise ConnectionError("the browser ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, timeout=120, **parameters):
        """Calls a method of the protocol, and returns its result. Events meanwhile are kept in `events`."""
        self.last_id += 1
        call = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            call["sessionId"] = self.session
        data = json.dumps(call).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            message = self._message(timeout)
            if message.get("id") != self.last_id:
                self.events.append(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']}")
            else:
                return message["result"]

    # --- The page

    def open(self, path, ready="document.documentElement.dataset.ready === 'yes'", timeout=60):
        """Opens a file and waits until `ready` holds. Returns the seconds that it took, with the next frame."""
        start = time.monotonic()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while not self.value(f"document.readyState === 'complete' && ({ready})"):
            if time.monotonic() - start > timeout:
                raise TimeoutError(f"{path}: not ready; {self.troubles()}")
            time.sleep(0.02)
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        return time.monotonic() - start

    def value(self, expression, timeout=120):
        """Evaluates an expression in the page; a promise is awaited."""
        result = self.call("Runtime.evaluate", timeout, expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {json.dumps(result['exceptionDetails'])[:2000]}")
        return result["result"].get("value")

    def resize(self, width, height, ratio=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=ratio, mobile=False)

    def prefer(self, scheme):
        """`light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path, full=False):
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))

    # --- What a person does

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def wheel(self, x, y, dx, dy):
        self.mouse("mouseWheel", x, y, deltaX=dx, deltaY=dy)

    def key(self, key, text=None, modifiers=0):
        code = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}.get(key, 0)
        text = text if text is not None else (key if len(key) == 1 else "\r" if key == "Enter" else "")
        extra = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, modifiers=modifiers, **extra)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code, modifiers=modifiers)

    def type(self, text):
        for letter in text:
            self.key(letter)

    # --- What it left behind

    def requests(self):
        """Returns the addresses that the page asked for, without data in the page itself."""
        urls = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [u for u in urls if not u.startswith("data:")]

    def troubles(self):
        """Returns errors, warnings and exceptions of the page."""
        out = []
        for e in self.events:
            if e.get("method") == "Runtime.exceptionThrown":
                out.append(json.dumps(e["params"]["exceptionDetails"])[:1000])
            elif e.get("method") == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning", "assert"):
                out.append(json.dumps(e["params"]["args"])[:1000])
            elif e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] in ("error", "warning"):
                out.append(e["params"]["entry"]["text"])
        return out
