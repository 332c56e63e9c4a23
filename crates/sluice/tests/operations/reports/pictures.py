"""Pictures of the reports: usage CHROMIUM URL. The last line of its output is `done`.

Each page is shown without a script at 390 and 1280 px, and its picture is taken in both colour schemes. Where SLUICE_TEST_PICTURES names a
directory, the pictures stay there.
"""

WIDTHS = (390, 1280)
# A page is at most so high on a phone, for what the server of this test has done.
HEIGHT_MAX = 5000

# Boxes that are wider than the window or than the box that scrolls them, in words. The navigation may scroll on a phone.
OVERFLOWING = """(() => {
  const room = document.documentElement.clientWidth, found = [];
  for (const box of document.querySelectorAll("body *")) {
    if (box.closest("nav, svg, details:not([open]) > :not(summary)")) continue;
    const scrolls = /auto|scroll/.test(getComputedStyle(box).overflowX) && box.scrollWidth > box.clientWidth + 1;
    if (box.getBoundingClientRect().right > room + 1 || scrolls) found.push(box.outerHTML.slice(0, 200));
  }
  return found.slice(0, 3);
})()"""

# The left edges of what stands at the left.
LEFT = """[...document.querySelectorAll(".brand, nav li:first-child a, h1, footer")].map((box) => {
  const range = document.createRange();
  range.selectNodeContents(box);
  return Math.round(range.getBoundingClientRect().left);
})"""

# How many tiles each row has.
TILES = """[...document.querySelectorAll(".tiles")].map((tiles) => Object.values(
  Object.groupBy(tiles.children, (tile) => Math.round(tile.getBoundingClientRect().top))).map((row) => row.length))"""

# Figures whose unit is on the next line, and names in a legend whose colour is on the line before.
BROKEN = """[...document.querySelectorAll(".unbroken, .number, .key, strong")]
  .filter((text) => text.getClientRects().length > 1 || text.offsetHeight > 2 * parseFloat(getComputedStyle(text).fontSize))
  .map((text) => text.textContent)"""

NAVIGATION = """(() => {
  const list = document.querySelector("nav ul"), style = getComputedStyle(list);
  return { scrolls: list.scrollWidth > list.clientWidth, hint: /linear-gradient/.test(style.backgroundImage) && /local/.test(style.backgroundAttachment) };
})()"""


def names(browser, url):
    browser.show(url + "/-/", 1280, "light")
    return browser.value("[...document.querySelectorAll('nav a')].map((link) => new URL(link.href).pathname)")


def check_layout(browser, where, width):
    assert browser.value("document.documentElement.scrollWidth") <= width, (where, "the page is wider than its window")
    found = browser.value(OVERFLOWING)
    assert not found, (where, found)
    lefts = browser.value(LEFT)
    assert max(lefts) - min(lefts) <= 1, (where, lefts)
    for rows in browser.value(TILES):
        assert len(set(rows)) == 1, (where, "a row of tiles is shorter", rows)
    broken = browser.value(BROKEN)
    assert not broken, (where, broken)
    navigation = browser.value(NAVIGATION)
    assert navigation["scrolls"] == (width < 500), (where, navigation)
    assert navigation["hint"] or not navigation["scrolls"], (where, navigation)


def check(browser, url, page, width):
    where = f"{page} at {width}"
    browser.show(url + page, width, "light")
    check_layout(browser, where, width)
    # The scroll bar of a desktop belongs to the window.
    shown_height = max(800, browser.value("document.documentElement.scrollHeight"))
    sizes, colours = set(), []
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        png, picture_width, height, colour = browser.picture()
        assert width - 20 <= picture_width <= width, (where, scheme, picture_width)
        assert abs(height - shown_height) <= 1, (where, scheme, height, shown_height)
        assert height < HEIGHT_MAX, (where, scheme, height)
        sizes.add((picture_width, height))
        colours.append(sum(colour))
        keep(png, page, width, scheme)
    assert len(sizes) == 1, (where, "the colour scheme changes the size", sizes)
    assert colours[0] > 3 * 200 and colours[1] < 3 * 60, (where, colours)


def keep(png, page, width, scheme):
    directory = os.environ.get("SLUICE_TEST_PICTURES")
    if directory:
        name = page.strip("/-") or "overview"
        with open(os.path.join(directory, f"{name}-{width}-{scheme}.png"), "wb") as file:
            file.write(png)


def check_trouble(browser, url):
    browser.show(url + "/-/", 1280, "light")
    assert browser.value("document.querySelectorAll('.tile.bad').length") == 1
    bad, usual = browser.value("['.tile.bad strong', '.tile strong'].map((name) => getComputedStyle(document.querySelector(name)).color)")
    assert bad != usual, (bad, usual)
    assert "upper line" in browser.value("document.querySelector('figure').textContent")
    browser.show(url + "/-/scripts", 1280, "light")
    assert browser.value("[...document.querySelectorAll('details[open] .trouble')].map((exit) => exit.textContent)") == ["exit code 3"]
    browser.show(url + "/-/statistics", 1280, "light")
    marks = browser.value("document.querySelector('figure').lastElementChild.textContent")
    assert len(marks.split()) >= 10, marks
    assert "logarithmic" in browser.value("document.body.textContent")


def check_listing(browser, url):
    browser.show(url + "/files/", 390, "light")
    assert browser.value("document.documentElement.scrollWidth") <= 390
    # The hour of a change is below its day.
    hours = browser.value("[...document.querySelectorAll('td.date span')].map((hour) => hour.offsetHeight)")
    assert hours and all(hours), hours


def main():
    program, url = sys.argv[1:]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        browser = Browser(program, directory)
        try:
            browser.call("Emulation.setScriptExecutionDisabled", value=True)
            pages = names(browser, url)
            assert len(pages) > 10, pages
            for page in pages:
                for width in WIDTHS:
                    check(browser, url, page, width)
            check_trouble(browser, url)
            assert not list(browser.complaints()), list(browser.complaints())
            # It names no icon, so that the browser asks for one and complains.
            check_listing(browser, url)
        finally:
            browser.end()
    print("done")


main()
