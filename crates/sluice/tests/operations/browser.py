"""A headless Chromium for tests of pages; the text of a test follows it.

Chromium is steered through pipes (--remote-debugging-pipe: commands on descriptor 3, answers on 4, each ended by a NUL).
"""

import base64
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zlib

# The longest wait for something that must happen.
DEADLINE = 60


class Browser:
    def __init__(self, program, directory):
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()

        def descriptors():
            ends = os.dup(commands), os.dup(answers)
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
            + ["--user-data-dir=" + directory, "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def receive(self):
        while b"\0" not in self.rest:
            data = os.read(self.answers, 1 << 20)
            assert data, "the browser has ended"
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def show(self, url, width, scheme, is_ready="true"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
        self.prefer(scheme)
        self.call("Page.navigate", url=url)
        # The page before has been left when the address is the new one.
        self.wait(f"location.href === {json.dumps(url)} && document.readyState === 'complete' && {is_ready}")

    def prefer(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self):
        """The whole page as PNG, with its width, its height and the colour of its first pixel."""
        png = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])
        width, height = struct.unpack(">II", png[16:24])
        data, at = b"", 8
        while at < len(png):
            length, kind = struct.unpack(">I4s", png[at:at + 8])
            data += png[at + 8:at + 8 + length] if kind == b"IDAT" else b""
            at += length + 12
        # No filter changes the first pixel of the first row.
        return png, width, height, tuple(zlib.decompress(data)[1:4])

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + DEADLINE
        while True:
            result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
            if result["result"].get("value") is True:
                return
            assert time.monotonic() < end, (expression, result, self.value("document.body.innerText"))
            # There is no event for what a page shows.
            time.sleep(0.05)

    def complaints(self):
        """Exceptions, and what the Content-Security-Policy has refused."""
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                yield event
            if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                yield event["params"]["entry"]["text"]

    def end(self):
        self.session = None
        try:
            self.call("Browser.close")
            self.process.wait(DEADLINE)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
