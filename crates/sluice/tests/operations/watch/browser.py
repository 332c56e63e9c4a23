"""The page of WATCH in a browser: usage browser.py CHROMIUM URL. The last line of its output is `done`.

Chromium is steered through pipes (--remote-debugging-pipe: commands on descriptor 3, answers on 4, each ended by a NUL).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

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

    def show(self, url, width, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && !document.getElementById('bar').hidden")

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


def click(browser, name):
    browser.value(f"document.getElementById('{name}').click()")


def type_text(browser, field, text):
    browser.value(
        f"(() => {{ const field = {field}; field.value = '{text}'; field.dispatchEvent(new Event('input')); }})()")


STATE = "document.getElementById('state').textContent"
ITEMS = "[...document.querySelectorAll('.event .item')].map((item) => item.textContent)"


def check(browser, url, width, scheme):
    browser.show(url + "/-/watch?path=/a*&items=request-head&items=mapping&items=timing", width, scheme)
    assert browser.value("document.forms[0].elements.path.value") == "/a*"
    assert browser.value("document.forms[0].elements.once.checked") is False
    click(browser, "start")
    browser.wait(f"{STATE}.startsWith('watching')")
    for path in ("/none", "/a.txt", "/a.txt?second"):
        try:
            urllib.request.urlopen(url + path).read()
        except urllib.error.HTTPError:
            pass
    browser.wait(f"{ITEMS}.filter((item) => item === 'timing').length === 2")
    # Only one request, with a picture of its times.
    browser.value("document.querySelector('.number').click()")
    browser.wait("document.querySelectorAll('#waterfall rect.slowest').length === 1")
    assert browser.value("new Set([...document.querySelectorAll('.number')].map((n) => n.textContent)).size") == 1
    click(browser, "all")
    browser.wait("new Set([...document.querySelectorAll('.number')].map((n) => n.textContent)).size === 2")
    # A search, and a pause in which events are kept.
    type_text(browser, "document.getElementById('search')", "?SECOND")
    browser.wait(f"document.querySelectorAll('.event').length > 0 && !{ITEMS}.includes('timing')")
    type_text(browser, "document.getElementById('search')", "")
    browser.wait(f"{ITEMS}.includes('timing')")
    click(browser, "pause")
    before = browser.value("document.querySelectorAll('.event').length")
    urllib.request.urlopen(url + "/a.txt?third").read()
    browser.wait(f"/paused/.test({STATE}) && parseInt({STATE}.match(/([0-9]+) events/)[1]) > {before}")
    assert browser.value("document.querySelectorAll('.event').length") == before
    click(browser, "pause")
    browser.wait(f"document.querySelectorAll('.event').length > {before}")
    assert browser.value("document.documentElement.scrollWidth") <= width, "the page is wider than its window"
    click(browser, "start")
    browser.wait(f"/stopped/.test({STATE})")
    assert not list(browser.complaints()), list(browser.complaints())
    # A wrong value is answered where it is seen.
    type_text(browser, "document.forms[0].elements.path", "a")
    click(browser, "start")
    browser.wait(f"/path: must begin with/.test({STATE})")
    browser.events.clear()


def main():
    program, url = sys.argv[1:]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        browser = Browser(program, directory)
        try:
            check(browser, url, 1000, "light")
            check(browser, url, 390, "dark")
        finally:
            browser.end()
    print("done")


main()
