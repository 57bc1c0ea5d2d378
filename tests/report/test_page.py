"""The page of a study in a real browser: what it shows, and how large it is."""

import base64
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser
from made_up import MODEL_IDS, study, with_pictures
from selenium.webdriver.common.by import By

from laddernet.network.models import MODELS
from laddernet.report.conclusions import conclusions, summary
from laddernet.report.cost import Cost
from laddernet.report.findings import findings
from laddernet.report.numbers import value
from laddernet.report.page import PageData, Pictures, RunData, page
from laddernet.report.pictures import Denoised, Samples, Surface
from laddernet.report.png import data_uri, png
from laddernet.report.tables import Result, tabulate
from laddernet.report.writers import comparison_text, notes

pytestmark = pytest.mark.process


# --- What it shows ----------------------------------------------------------------------------------------------


def test_table_says_what_the_study_says(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    assert browser.models() == MODEL_IDS
    cells = browser.texts("#heat tbody td")
    assert len(cells) == len(MODEL_IDS) * 2
    for cell, shown in zip((cell for row in data.table.rows for cell in row.cells), cells, strict=True):
        assert cell.aer is not None
        assert value(cell.aer, cell.se) in shown
        assert ("●" in shown) == cell.leading
        assert ("(2/3" in shown) == (cell.n == 2)
        assert ("1 failed" in shown) == (cell.failed == 1)
        if cell.paper_aer is not None:
            assert f"paper {value(cell.paper_aer, cell.paper_se)}" in shown
    assert any(cell.leading for row in data.table.rows for cell in row.cells)
    assert browser.texts("#table-notes li") == notes(data.table)
    assert browser.texts("#tiles strong")[0] == "40 of 42"


def test_page_begins_with_what_was_found(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    found = browser.texts("#findings li")
    assert found == findings(data.table)
    assert found[0].startswith("100 labels: baseline has the lowest mean error, ")
    heading, nav = (
        browser.js(f"return document.querySelector('{css}').getBoundingClientRect().top")
        for css in ("#findings", "nav")
    )
    assert heading < nav < 500


def test_equal_errors_are_not_shown_as_certain(browser: Browser, data: PageData) -> None:
    results = [Result("vanilla", labels, seed, 1.5) for seed in range(3) for labels in (100, 1000)]
    for kept in (results, results[::2]):  # as a heat map and as a forest plot
        browser.open(page(replace(data, table=tabulate(kept, data="mnist"))))
        assert "1.50" in browser.one("#heat tbody").text
        assert "1.50 ±" not in browser.one("#heat tbody").text
        assert not browser.driver.find_elements(By.CSS_SELECTOR, "#spread-panels .se rect, .strip .whisker line")


def test_paired_tests_are_shown_when_asked_for(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    assert "to vanilla" not in browser.one("#heat").text
    linear = next(row for row in data.table.rows if row.model == "linear").cells[0]
    for choice, test, words in (
        ("vanilla", linear.to_reference, "to vanilla"),
        ("the best", linear.to_best, "to the best"),
    ):
        browser.press(browser.label("#table-controls .choice", choice))
        assert f"{comparison_text(test)} {words}" in browser.one("#heat tr[data-model=linear] td").text


def test_spread_has_a_dot_for_each_seed(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    finished = [sum(run.labels == labels and run.status == "done" for run in data.runs) for labels in (100, 1000)]
    panels = browser.driver.find_elements(By.CSS_SELECTOR, "#spread-panels figure")
    assert [len(panel.find_elements(By.CSS_SELECTOR, ".seed circle")) for panel in panels] == finished
    assert [len(panel.find_elements(By.CSS_SELECTOR, ".mean line")) for panel in panels] == [7, 7]


def test_study_without_any_run_opens(browser: Browser) -> None:
    browser.open(page(PageData("Empty", "digits", "now", "laddernet study", tabulate([], data="digits"))))
    assert browser.texts("#heat tbody td") == ["No model passes the filter."]
    assert not browser.one("#curves").is_displayed()
    assert not browser.one("#networks").is_displayed()


# --- The paper's conclusions ------------------------------------------------------------------------------------


def test_conclusions_are_shown_with_their_tests_and_the_cost(browser: Browser, data: PageData) -> None:
    costly = replace(data.table, cost=(Cost(100, 20, 12.5, 3000.0), Cost(1000, 20, 2.5, 100.0)))
    browser.open(page(replace(data, table=costly)))
    found = conclusions(data.table)
    with_amlp_4 = ["vanilla − AMLP"]  # which has the paper's lowest error with 1000 labels, not with 100
    assert [one.claim.test for one in found] == ["baseline − baseline-noise", "rand-init − vanilla", *with_amlp_4]
    assert browser.texts("#conclusions-table tbody th small") == [one.claim.test for one in found]
    shown = browser.texts("#conclusions-table tbody td")
    assert len(shown) == len(found) * 2
    for text, finding in zip(shown, (one.findings.get(labels) for one in found for labels in (100, 1000)), strict=True):
        assert (text == "–") if finding is None else text.endswith(f" {finding.holds}{finding.evidence}")
    assert shown.count("–") == 1
    assert browser.texts("#conclusions-summary li") == summary(found)
    assert browser.texts("#cost tbody tr:last-child td") == ["40", "15.0", "3,100"]


def test_a_study_of_other_data_has_no_conclusions(browser: Browser, data: PageData) -> None:
    results = [Result(run.model, run.labels, run.seed, run.error) for run in data.runs if run.error is not None]
    browser.open(page(replace(data, table=tabulate(results, data="digits"))))
    assert not browser.one("#conclusions").is_displayed()
    assert not browser.one("nav a[href='#conclusions']").is_displayed()


# --- What it must withstand -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The paper's study: 20 models, 3 numbers of labels, 10 seeds, 150 epochs, pictures of each cell."""
    data = study(list(MODELS), (100, 1000, 60000), seeds=10, epochs=150)
    rng = np.random.default_rng(0)
    axis = np.linspace(-4, 4, 21).round(3).tolist()
    surfaces = [
        Surface(layer, name, axis, rng.normal(size=(21, 21)).round(3).tolist()) for layer in range(7) for name in "abc"
    ]
    images = [data_uri(png(rng.integers(0, 256, shape, np.uint8))) for shape in ((28, 289), *[(10, 40)] * 6)]
    layers = [Denoised(l, l == 0, image, image, image, 0.09, 0.03, True) for l, image in enumerate(images)]
    cells = {(run.model, run.labels): run.fingerprint for run in data.runs}
    pictures = [
        Pictures(fingerprint, surfaces, layers, Samples(images[0], images[0])) for fingerprint in cells.values()
    ]
    file = tmp_path_factory.mktemp("large") / "page.html"
    file.write_text(page(PageData(**{**vars(data), "pictures": pictures})), "utf-8")
    return file


def test_page_of_600_runs_is_small_enough(large: Path) -> None:
    assert large.stat().st_size <= 15e6


def test_page_of_600_runs_draws_no_more_than_is_seen_and_all_at_once(browser: Browser, large: Path) -> None:
    """How much there is to do, not how long it takes: that is also the doing of what else the machine does."""

    def layouts() -> float:
        metrics = browser.cdp("Performance.getMetrics")["metrics"]
        return next(float(metric["value"]) for metric in metrics if metric["name"] == "LayoutCount")

    browser.cdp("Performance.enable")
    before = layouts()
    browser.load(large)
    assert layouts() - before < 50
    assert browser.js("return document.querySelectorAll('*').length") < 5000
    assert browser.one("#runs-count").text == "600 runs"
    assert len(browser.texts("#runs-table tbody tr")) == 100  # at first
    browser.press(browser.one("#runs-more"))
    assert len(browser.texts("#runs-table tbody tr")) == 600
    for css in ("#heat thead th:nth-child(2) button", "#curves-all button", "#runs-table thead th:nth-child(5) button"):
        before = layouts()
        browser.js("arguments[0].click(); document.body.offsetHeight", browser.one(css))
        assert layouts() - before < 20, css


def test_page_fits_a_narrow_window_and_prints(browser: Browser, data: PageData) -> None:
    browser.resize(420)
    try:
        browser.open(page(with_pictures(data)))
        assert browser.js("return document.documentElement.scrollWidth") <= 420
    finally:
        browser.cdp("Emulation.clearDeviceMetricsOverride")
    document = base64.b64decode(browser.cdp("Page.printToPDF", printBackground=True)["data"])
    assert document.startswith(b"%PDF")


def test_page_follows_the_colour_scheme(browser: Browser, data: PageData) -> None:
    colours = []
    for scheme in ("light", "dark"):
        browser.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.open(page(data))
        colours.append(browser.js("return getComputedStyle(document.body).backgroundColor"))
    browser.cdp("Emulation.setEmulatedMedia", features=[])
    light, dark = (sum(map(int, re.findall(r"\d+", colour))) for colour in colours)
    assert light > 600
    assert dark < 150


# --- Without a browser ------------------------------------------------------------------------------------------


def held(data: PageData, name: str) -> Any:
    found = re.search(f'id="data-{name}">(.*?)</script>', page(data), re.DOTALL)
    assert found
    return json.loads(found[1])


def test_long_curves_are_thinned_but_keep_their_ends() -> None:
    records = [{"epoch": e, "cost": 1 / e, "validation_error": 2.0 if e % 7 == 0 else None} for e in range(1, 1001)]
    records[4]["cost"] = math.nan
    data = study(["vanilla"], seeds=1)
    run = RunData(**{**vars(data.runs[0]), "history": records})
    curves = held(PageData(**{**vars(data), "runs": [run]}), "curves")
    place, values = curves["runs"][0]["cost"]
    assert len(values) == len(curves["axes"][place]) == 80
    assert (curves["axes"][place][0], curves["axes"][place][-1], values[-1]) == (1, 1000, 0.001)
    place, values = curves["runs"][0]["validation_error"]
    assert all(epoch % 7 == 0 for epoch in curves["axes"][place])
