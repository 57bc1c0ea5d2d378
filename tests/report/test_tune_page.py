"""The page of searches in a real browser: its charts show the trials, on axes that fit the window."""

import re
from typing import Any

import pytest
from browser import Browser
from made_up import HOSTILE
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from laddernet.report.tune_page import page
from laddernet.tune.outcome import Outcome, Tried

pytestmark = pytest.mark.process

RANGES: dict[str, dict[str, Any]] = {
    "noise": {"low": 0.1, "high": 1.0, "grid": []},
    "lambda_0": {"low": 1.0, "high": 10000.0, "log": True, "grid": []},
    "lambda_1": {"low": 0.01, "high": 100.0, "log": True, "zero": True, "grid": []},
}
# Mean errors of the trials that have one; trial 3 is pruned, trial 5 failed.
MEANS = {0: 20.0, 1: 40.0, 2: 10.0, 3: 80.0, 4: 2.5}
VALUES = [[0.1, 1.0, 0.0], [1.0, 10000.0, 100.0], [0.4, 100.0, 1.0], [0.7, 10.0, 0.1], [0.2, 1000.0, 0.01]]


def search(names: list[str] | None = None, model: str = "vanilla", reason: str = "no number") -> Outcome:
    ranges = dict(zip(names or RANGES, RANGES.values(), strict=True))
    about = {"data": "digits", "labels": 100, "model": model, "draws": 2, "command": f"laddernet tune {model}"}
    about |= {"config": {"epochs": 3}, "starts_untuned": True, "space": {"ranges": ranges, "fixed": {}}}
    trials = [
        Tried(
            number,
            "pruned" if number == 3 else "complete",
            dict(zip(ranges, VALUES[number], strict=True)),
            {},
            [mean] if number == 3 else [mean - 1, mean + 1],
        )
        for number, mean in MEANS.items()
    ]
    failed = Tried(5, "failed", dict(zip(ranges, VALUES[0], strict=True)), {}, [], reason)
    shares = dict(zip(ranges, (0.5, 0.3, 0.2), strict=True))
    return Outcome(f"digits 100 {model}", about, [*trials, failed], shares, "")


def points(browser: Browser, css: str) -> list[list[float]]:
    """The coordinates of each path's points, in turn."""
    paths = browser.js("return [...document.querySelectorAll(arguments[0])].map(e => e.getAttribute('d'))", css)
    return [[float(number) for number in re.findall(r"-?[\d.]+", path)] for path in paths]


def test_tables_have_every_trial(browser: Browser) -> None:
    browser.open(page([search(), search(model="linear")]))
    assert browser.texts("#table tbody th") == ["vanilla", "linear"]
    assert browser.texts("#table tbody tr:first-child td")[2:4] == ["2.5 ± 1.0", "20.0 ± 1.0"]
    everything = "#search-1 details:not(.command)"
    browser.one(f"{everything} summary").send_keys(Keys.ENTER)
    rows = browser.one(f"{everything} tbody").text.splitlines()
    assert rows[3] == "3 pruned 80.00 (1 draw) 0.7 10 0.1"
    assert len(rows) == 6
    assert len(browser.texts("#search-1 .history circle")) == 5  # each search has its charts
    assert browser.texts("#search-1 .notes li") == ["trial 5 failed: no number"]


def test_history_has_each_trial_and_the_lowest_error_so_far(browser: Browser) -> None:
    browser.open(page([search()]))
    assert len(browser.numbers(".history .pruned circle", "cy")) == 1
    complete = browser.numbers(".history .complete circle", "cy")
    assert len(complete) == 4
    assert browser.texts(".history .complete title")[-1] == "trial 4: 2.50 %"
    (best,) = points(browser, ".history .best path")
    assert best[1] == pytest.approx(complete[0], abs=0.1)  # the first trial
    assert best[-1] == pytest.approx(complete[3], abs=0.1)  # the lowest
    assert sorted(best[1::2])[0] == pytest.approx(complete[0], abs=0.1)  # 40 % of trial 1 is no improvement
    assert len(browser.texts(".history .untuned line")) == 1


def test_the_error_axis_is_logarithmic_until_linear_is_chosen(browser: Browser) -> None:
    browser.open(page([search()]))
    charts = (".history .complete circle", ".slices figure:nth-child(2) .complete circle")
    for css in charts:
        twenty, forty, ten, _ = browser.numbers(css, "cy")
        assert twenty - forty == pytest.approx(ten - twenty, abs=0.1)  # equal ratios, equal distances
    browser.label("#scale .choice", "log").send_keys(Keys.ARROW_RIGHT)
    for css in charts:
        twenty, forty, ten, _ = browser.numbers(css, "cy")
        assert twenty - forty == pytest.approx(2 * (ten - twenty), abs=0.1)


def test_a_trial_without_errors_is_at_the_end_of_the_log_axis(browser: Browser) -> None:
    perfect = search()
    perfect.trials[4].errors[:] = [0.0, 0.0]
    browser.open(page([perfect]))
    _, _, ten, zero = browser.numbers(".history .complete circle", "cy")
    assert ten < zero < browser.one(".history svg").size["height"]
    assert all(number == number for number in points(browser, ".parallel .winner path")[0])


def test_parallel_coordinates_have_an_axis_for_the_error_and_each_hyperparameter(browser: Browser) -> None:
    browser.open(page([search()]))
    assert browser.texts(".parallel .names text") == ["error, %", "noise", "lambda_0", "lambda_1"]
    assert len(browser.texts(".parallel .axes line")) == 4
    lines = points(browser, ".parallel .trials path")
    assert [len(line) for line in lines] == [8] * 4  # trials with all draws; two coordinates for each axis
    worst, first, _, best = lines
    assert best == points(browser, ".parallel .winner path")[0]
    assert worst[3] == worst[5] == worst[7]  # every hyperparameter at its high end
    assert first[3] == first[5] == first[7]  # and at its low end, which is 0 on the last axis
    assert worst[1] < first[1] < best[1]  # errors, higher up
    assert worst[3] < best[3] < first[3]
    low, high = first[5], worst[5]
    assert best[5] == pytest.approx(low + 0.75 * (high - low), abs=0.1)  # 1000 of 1 to 10,000, on a log scale


def test_slices_show_a_zero_below_a_log_range(browser: Browser) -> None:
    browser.open(page([search()]))
    assert browser.texts(".slices figcaption span") == [f"{share} % of the effect" for share in (50, 30, 20)]
    ticks = browser.texts(".slices figure:nth-child(3) [aria-label='x-axis tick label'] text")
    assert ticks == ["0", "0.1", "1", "10", "100"]
    places = (
        "return [...document.querySelectorAll('.slices figure:nth-child(3) circle')].map(e => +e.getAttribute('cx'))"
    )
    pruned, zero, *others = browser.js(places)
    assert zero < min(others) < pruned


def test_page_fits_a_narrow_window(browser: Browser) -> None:
    try:
        for width, beside in ((1200, True), (400, False)):
            browser.cdp(
                "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False
            )
            browser.open(page([search()]))
            assert browser.js("return document.documentElement.scrollWidth") <= width
            # The axes of parallel coordinates are beside each other, or below each other in a narrow window.
            one = browser.one(".parallel .axes line")
            assert (one.size["height"] > one.size["width"]) == beside
            assert browser.one(".history svg").size["width"] <= width
    finally:
        browser.cdp("Emulation.clearDeviceMetricsOverride")


def test_every_control_is_reached_by_tab(browser: Browser) -> None:
    browser.open(page([search()]))
    browser.js(
        "window.reached = []; addEventListener('focusin', ({ target }) => "
        "reached.push((target.ariaLabel ?? target.closest('section')?.id) + ' ' + target.tagName.toLowerCase()))"
    )
    ActionChains(browser.driver, duration=0).send_keys(Keys.TAB * 12).perform()
    wanted = {"table a", "table input", "search-0 summary", "Best trials div", "table div"}
    assert wanted <= set(browser.js("return reached"))


def test_a_search_without_a_finished_trial_opens(browser: Browser) -> None:
    begun = search()
    del begun.trials[:]
    browser.open(page([begun]))
    assert browser.texts("circle") == []


def test_text_of_a_user_stays_text(browser: Browser) -> None:
    document = page([search(HOSTILE, HOSTILE[0], HOSTILE[1])])
    assert "<img" not in document
    assert len(re.findall("<script", document)) == 4  # one of data, two libraries and the page's own
    browser.open(document)
    assert browser.texts("#table tbody th") == [HOSTILE[0]]
    assert browser.texts(".parallel .names text") == ["error, %", *HOSTILE]
    assert browser.texts(".notes li") == [f"trial 5 failed: {HOSTILE[1]}"]
    assert not browser.driver.find_elements(By.CSS_SELECTOR, "img")
