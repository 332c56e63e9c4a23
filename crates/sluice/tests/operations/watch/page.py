"""The page of WATCH in a browser: usage CHROMIUM URL. The last line of its output is `done`."""


def click(browser, name):
    browser.value(f"document.getElementById('{name}').click()")


def type_text(browser, field, text):
    browser.value(
        f"(() => {{ const field = {field}; field.value = '{text}'; field.dispatchEvent(new Event('input')); }})()")


READY = "!document.getElementById('bar').hidden"
STATE = "document.getElementById('state').textContent"
ITEMS = "[...document.querySelectorAll('.event .item')].map((item) => item.textContent)"


def check(browser, url, width, scheme):
    browser.show(url + "/-/watch?path=/a*&items=request-head&items=mapping&items=timing", width, scheme, READY)
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


# The rows of one visit: two colours, or several of the styles of a row, are two visits for a reader.
VISIT = """(() => {
  const rows = [...document.querySelectorAll(".event")].filter((row) => row.querySelector(".item").textContent !== "errors");
  const style = (row) => { const of = getComputedStyle(row); return [of.display, of.borderRadius, of.borderTopWidth, of.maxHeight].join(); };
  return { hues: new Set(rows.map((row) => row.style.getPropertyValue("--hue"))).size, styles: [...new Set(rows.map(style))] };
})()"""
WIDE = """[...document.querySelectorAll("body :not(nav *)")].filter((box) => box.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((box) => box.outerHTML.slice(0, 200)).slice(0, 4)"""
OVERFLOWING = """[...document.querySelectorAll("#lines .text, #lines .event")].filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.textContent.slice(0, 200))"""


def check_items(browser, url, width):
    """All items of one visit: rows look the same, nothing is wider than its room, and its connection and its request are seen as one."""
    everything = "&".join("items=" + item for item in (
        "connection", "request-head", "mapping", "mailbox", "process", "variables", "octets", "log", "timing", "errors", "cache"))
    browser.show(url + "/-/watch?path=/a.txt&" + everything, width, "light", READY)
    # Each item is explained where it is seen, below the heading of its part.
    assert browser.value("document.querySelectorAll('#watch fieldset.boxes legend').length") >= 5
    assert browser.value("[...document.querySelectorAll('.boxes label')].every((label) => label.querySelector('small').offsetHeight > 0)")
    assert "Press Start" in browser.value("document.getElementById('hint').innerText")
    assert browser.value("document.documentElement.scrollWidth") <= width, "the form is wider than its window"
    click(browser, "start")
    browser.wait(f"{STATE}.startsWith('watching')")
    urllib.request.urlopen(url + "/a.txt").read()
    browser.wait(f"['timing', 'log', 'octets', 'connection'].every((item) => {ITEMS}.includes(item))")
    assert browser.value("document.getElementById('hint').offsetHeight") == 0
    shown = browser.value(VISIT)
    assert shown["hues"] == 1 and len(shown["styles"]) == 1, shown
    wide = browser.value(WIDE)
    assert not wide, wide
    assert browser.value("document.documentElement.scrollWidth") <= width, "the page is wider than its window"
    assert not browser.value(OVERFLOWING), browser.value(OVERFLOWING)
    # Of the connection everything, of the request what is its own.
    browser.value("[...document.querySelectorAll('.number')].find((number) => !number.textContent.includes('/')).click()")
    browser.wait(f"{ITEMS}.includes('octets') && {ITEMS}.includes('timing')")
    click(browser, "all")
    browser.value("[...document.querySelectorAll('.number')].find((number) => number.textContent.includes('/')).click()")
    browser.wait(f"!{ITEMS}.includes('octets') && {ITEMS}.includes('timing')")
    click(browser, "start")
    browser.wait(f"/stopped/.test({STATE})")
    browser.events.clear()


def main():
    program, url = sys.argv[1:]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        browser = Browser(program, directory)
        try:
            check(browser, url, 1000, "light")
            check(browser, url, 390, "dark")
            for width in (390, 1280):
                check_items(browser, url, width)
        finally:
            browser.end()
    print("done")


main()
