"""The pages of the demo: usage CHROMIUM URL. The last line of its output is `done`."""

# What is wider than the window; code scrolls by itself, and shows that.
WIDE = """[...document.querySelectorAll("body :not(pre *)")].filter((box) => box.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((box) => box.outerHTML.slice(0, 200)).slice(0, 3)"""
RIGHT = """[...document.querySelectorAll("header p, header table, main p, main pre")].filter((box) => box.offsetHeight > 0)
  .map((box) => Math.round(box.getBoundingClientRect().right))"""
HINT = """[...document.querySelectorAll("pre")].every((code) => /linear-gradient/.test(getComputedStyle(code).backgroundImage))"""


def check(browser, url, width, scheme):
    for page in ("/", "/exercise/"):
        browser.show(url + page, width, scheme)
        where = (page, width, scheme)
        assert browser.value("document.documentElement.scrollWidth") <= width, where
        wide = browser.value(WIDE)
        assert not wide, (where, wide)
        assert browser.value(HINT), where
        if width > 500:
            assert len(set(browser.value(RIGHT))) == 1, (where, browser.value(RIGHT))
        directory = os.environ.get("SLUICE_TEST_PICTURES")
        if directory:
            name = page.strip("/") or "index"
            with open(os.path.join(directory, f"demo-{name}-{width}-{scheme}.png"), "wb") as file:
                file.write(browser.picture()[0])
    browser.show(url + "/", width, scheme)
    links = browser.value("[...document.querySelectorAll('a')].map((link) => link.getAttribute('href'))")
    contents = [link for link in links if link.startswith("#")]
    assert len(contents) > 10 and all(browser.value(f"!!document.querySelector('{link}')") for link in set(contents)), contents
    elsewhere = [link for link in links if link.startswith("/")]
    assert elsewhere[:2] == ["/-/", "/-/watch?start"], elsewhere
    assert f"S={url}\n" in browser.value("document.querySelector('#curl code').textContent")
    assert not list(browser.complaints()), list(browser.complaints())


def main():
    program, url = sys.argv[1:]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        browser = Browser(program, directory)
        try:
            for width in (390, 1280):
                for scheme in ("light", "dark"):
                    check(browser, url, width, scheme)
        finally:
            browser.end()
    print("done")


main()
