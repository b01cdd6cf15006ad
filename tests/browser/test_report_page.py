"""The report in a real browser: nothing is asked of the network, and everything works."""

import shutil
from importlib.resources import files

import pytest

import registry
from localconformal.audit import audit
from localconformal.report import write_report
from localconformal.report.report import typeset
from localconformal.text import say_number, say_tick
from report_data import hostile, ordinary, rows

pytestmark = pytest.mark.ci
playwright = registry.optional("playwright.sync_api")
REGIONS = "[data-regions='features']"
SHOWN = "tbody tr:not([hidden]):not(.folded)"
#: In the first the new width is seen, in the second the charts are drawn again.
THREE_FRAMES = """() => new Promise((done) => {
    const next = requestAnimationFrame;
    next(() => next(() => next(done)));
})"""


@pytest.fixture(scope="session")
def browser():
    # Without a chromium of the system, playwright takes its own, or says how to get it.
    with playwright.sync_playwright() as started:
        path = shutil.which("chromium")
        found = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    X, y, intervals = rows(30)
    intervals[:3, 1] = float("inf")
    few = {"audit": audit(X, y, intervals), "X": X, "y": y, "intervals": intervals, "y_pred": y}
    made = {"ordinary": ordinary(), "hostile": hostile(), "few": few}
    return {
        name: write_report(**given, path=folder / f"{name}.html") for name, given in made.items()
    }


@pytest.fixture
def open_page(browser, reports):
    """Opens a report; whatever it asks of the network, logs, throws or pops up fails the test."""
    contexts, problems = [], []

    def opened(name="ordinary", width=1400, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        address = reports[name].as_uri()

        def only_the_file(route):
            if route.request.url.split("#")[0] == address:
                return route.continue_()
            problems.append(f"request: {route.request.url}")
            return route.abort()

        context.route("**/*", only_the_file)
        context.set_offline(True)
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (problems.append("dialog"), dialog.dismiss()))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def texts(page, selector):
    return page.locator(selector).all_inner_texts()


def shown_rows(page, part="features"):
    return texts(page, f"[data-regions='{part}'] {SHOWN} th")


def column(page, number):
    cells = page.locator(f"{REGIONS} {SHOWN} td:nth-child({number})")
    return [float(value) for value in cells.evaluate_all("cells => cells.map(c => c.dataset.v)")]


def check_charts(page):
    """Every chart is drawn with a title, marks and no undefined place; the page fits."""
    plots = page.locator("figure .plot")
    assert plots.count() == page.locator("figure .plot > svg[role=img]").count() >= 5
    for svg in page.locator("figure .plot > svg").all():
        found = svg.evaluate(
            """node => [node.querySelector(':scope > title').textContent,
                        node.querySelector(':scope > desc').textContent,
                        node.querySelectorAll('path, rect, circle').length, node.outerHTML]"""
        )
        assert all(found)
        assert "NaN" not in found[3]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def widths(page):
    return page.locator(".plot svg").evaluate_all("all => all.map(s => s.viewBox.baseVal.width)")


@pytest.mark.parametrize("name", ["ordinary", "hostile", "few"])
def test_every_chart_is_drawn_and_the_page_fits_a_desk_and_a_phone(open_page, name):
    page = open_page(name, width=1400)
    check_charts(page)
    page.set_viewport_size({"width": 390, "height": 800})
    page.evaluate(THREE_FRAMES)
    for seen in (page, open_page(name, width=390)):
        assert max(widths(seen)) < 390
        check_charts(seen)


def test_names_from_data_stay_text(open_page):
    page = open_page("hostile")
    assert page.locator("h1 script, main script, main img, main b").count() == 0
    assert page.title() == "<script>alert(1)</script>"
    assert any("<script>alert(1)</script>" in text for text in shown_rows(page))
    page.locator("[data-chart='features'] select").select_option(label="<script>alert(1)</script>")
    assert "<script>" in page.locator("[data-chart='features'] svg > title").text_content()
    for summary in page.locator("summary").all():
        summary.click()
    assert page.locator("main script, main img, main b").count() == 0


def test_the_filter_and_the_checkbox_choose_rows(open_page):
    page = open_page()
    total = page.locator(f"{REGIONS} tbody tr").count()
    assert len(shown_rows(page)) == 10 < total
    page.get_by_role("button", name=f"Show all {total}").click()
    assert len(shown_rows(page)) == total
    page.get_by_label("Filter").fill("WEATHER")
    assert sorted(shown_rows(page)) == ["weather = clear", "weather = rain", "weather = snow"]
    assert shown_rows(page, "groups") == shown_rows(page)
    page.get_by_label("Filter").fill("")
    page.get_by_label("Only beyond chance").check()
    seen = "all => all.filter(r => r.checkVisibility()).map(r => r.dataset.state)"
    shown = page.locator(f"{REGIONS} tbody tr").evaluate_all(seen)
    assert 0 < len(shown) < total
    assert "within" not in shown
    assert f"{len(shown)} of {total} shown." in texts(page, f"{REGIONS} .count")
    page.get_by_label("Filter").fill("no such column")
    assert shown_rows(page) == []


def test_headers_sort_by_their_column(open_page):
    page = open_page()
    page.locator(f"{REGIONS} .more").click()
    head = page.locator(f"{REGIONS} thead th", has_text="Coverage")
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(page, 3) == sorted(column(page, 3))
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    assert column(page, 3) == sorted(column(page, 3), reverse=True)
    assert page.locator(f"{REGIONS} [aria-sort]").count() == 1


def test_no_control_is_without_a_name(open_page):
    page = open_page()
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    asked = {"button", "checkbox", "combobox", "link", "searchbox", "textbox", "region", "image"}
    asked |= {"DisclosureTriangle", "navigation", "table"}
    nodes = [n for n in tree if not n["ignored"] and n["role"]["value"] in asked]
    assert {"button", "checkbox", "combobox", "searchbox"} <= {n["role"]["value"] for n in nodes}
    assert [n["role"]["value"] for n in nodes if not n["name"]["value"].strip()] == []


def test_the_script_writes_numbers_as_python_does(open_page):
    # No factor is a tie, which the two may break otherwise.
    sizes = [f * 10.0**p for p in range(-12, 19) for f in (1.0, 1.23456789, 2.6, 9.9996)]
    values, steps = [0.0, *sizes, *(-size for size in sizes)], [0.025, 0.5, 2.0, 1e4]
    script = (files("localconformal.report") / "assets" / "draw.js").read_text(encoding="utf-8")
    page, written = open_page(), "values.map((v) => steps.map((s) => sayTick(v, s)))"
    ticks = f"([values, steps]) => {{ {script}; return {written}; }}"
    expected = [[typeset(say_tick(value, step)) for step in steps] for value in values]
    assert page.evaluate(ticks, [values, steps]) == expected
    odd = {"Infinity": "∞", "-Infinity": "−∞", "NaN": "–"}
    numbers = f"values => {{ {script}; return values.map(say); }}"
    expected = [typeset(say_number(value)) for value in values]
    assert page.evaluate(numbers, [*values, *odd]) == [*expected, *odd.values()]
    assert [typeset(say_number(float(value))) for value in odd] == [*odd.values()]
