"""A headless Chromium without a network, and pages of reports in it."""

import shutil
import sys
from pathlib import Path

import pytest

# The reports are those of the tests beside.
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """Paths by name; made once."""
    from report_data import hostile, ordinary, rows

    from localconformal.audit import audit
    from localconformal.report import write_report

    folder = tmp_path_factory.mktemp("reports")
    X, y, intervals = rows(30)
    intervals[:3, 1] = float("inf")
    few = {"audit": audit(X, y, intervals), "X": X, "y": y, "intervals": intervals}
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
