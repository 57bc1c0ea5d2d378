"""The forest plot of a study with one number of labels, in a real browser."""

from typing import Any

import numpy as np
import pytest
from browser import Browser
from made_up import MODEL_IDS, by_error, study
from selenium.webdriver.common.keys import Keys

from laddernet.report.numbers import value
from laddernet.report.page import PageData, page

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def one() -> PageData:
    return study(MODEL_IDS, labels=(100,), seeds=4)


def strips(browser: Browser, css: str) -> list[int]:
    """The number of marks in the strip of each row."""
    return browser.js(
        "return [...document.querySelectorAll('#heat tbody .strip')].map(e => e.querySelectorAll(arguments[0]).length)",
        css,
    )


def test_one_number_of_labels_is_a_forest_plot_with_every_seed(browser: Browser, one: PageData) -> None:
    browser.open(page(one))
    cells = [row.cells[0] for row in one.table.rows]
    assert browser.models() == MODEL_IDS
    assert strips(browser, ".one circle") == [cell.n for cell in cells] == [4, 3, 4, 3, 4, 4, 4]
    assert strips(browser, ".whisker line") == [1] * 7
    assert strips(browser, ".leading path") == [int(cell.leading) for cell in cells]
    assert strips(browser, ".other path") == [int(not cell.leading) for cell in cells]
    assert strips(browser, ".paper path") == strips(browser, ".paper-whisker line") == [1] * 6 + [0]
    for cell, shown in zip(cells, browser.texts("#heat tbody td:nth-child(3)"), strict=True):
        assert shown == ("● " if cell.leading else "") + value(cell.aer, cell.se)
    assert not browser.one("#spread").is_displayed()
    assert not browser.one("#heat-legend").text


def test_forest_plot_draws_the_numbers_to_scale(browser: Browser, one: PageData) -> None:
    browser.open(page(one))
    browser.press(browser.label("#table-controls .choice", "linear"))
    script = """
      return [...document.querySelectorAll('#heat tbody .strip')].map(strip => {
        const boxes = (css) => [...strip.querySelectorAll(css)].map(e => e.getBoundingClientRect());
        const at = (css) => boxes(css).map(box => (box.left + box.right) / 2);
        const [{ left, right }] = boxes('.whisker line');
        return [at('.leading path, .other path')[0], left, right, at('.paper path')[0] ?? null, at('.one circle')];
      })"""
    places: list[list[Any]] = browser.js(script)
    cells = [row.cells[0] for row in one.table.rows]
    assert all(cell.aer is not None and cell.se is not None for cell in cells)
    means = np.array([cell.aer for cell in cells], float)
    spreads = np.array([cell.se for cell in cells], float)
    slope, start = np.polyfit(means, [place[0] for place in places], 1)  # pixels for a percentage point
    for number, place in enumerate(places):
        cell = cells[number]
        expected = [means[number] - spreads[number], means[number] + spreads[number]]
        assert place[1:3] == pytest.approx([start + slope * end for end in expected], abs=1.0)
        if cell.paper_aer is not None:
            assert place[3] == pytest.approx(start + slope * cell.paper_aer, abs=1.0)
        errors = one.table.errors[one.table.rows[number].model, 100].values()
        assert sorted(place[4]) == pytest.approx(sorted(start + slope * error for error in errors), abs=1.0)


def test_forest_plot_is_sorted_filtered_and_changed_with_the_keyboard(browser: Browser, one: PageData) -> None:
    browser.open(page(one))
    head = browser.one("#heat thead th:nth-child(3) button")
    browser.js("arguments[0].focus()", head)
    for key, order in ((Keys.ENTER, by_error(one, 0)), (Keys.SPACE, by_error(one, 0)[::-1])):
        browser.driver.switch_to.active_element.send_keys(key)
        assert browser.models() == order
        labels = browser.js("return [...document.querySelectorAll('#heat .strip svg')].map(e => e.ariaLabel)")
        assert [label.partition(": ")[0] for label in labels] == order
    browser.one("#filter-text").send_keys("base")
    assert strips(browser, ".one circle") == [3, 4]
    paper = browser.label("#table-controls", "the paper")
    paper.send_keys(Keys.SPACE)
    assert strips(browser, ".paper path") == [0, 0]
    assert "25.8" not in browser.one("#heat").text
    best = browser.label("#table-controls .choice + .tick + .choice", "vanilla")
    best.send_keys(Keys.ARROW_LEFT)
    assert "against the best" in browser.one("#heat thead").text


def test_forest_plot_fits_a_narrow_window(browser: Browser, one: PageData) -> None:
    browser.resize(420)
    try:
        browser.open(page(one))
        assert browser.js("return document.documentElement.scrollWidth") <= 420
    finally:
        browser.cdp("Emulation.clearDeviceMetricsOverride")
