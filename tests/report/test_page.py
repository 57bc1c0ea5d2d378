"""The page of a study in a real browser: what it shows, what its controls do, and how large it is."""

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
from made_up import network_pictures, of_run, study
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from laddernet.network.models import MODELS
from laddernet.report.conclusions import conclusions, summary
from laddernet.report.cost import Cost
from laddernet.report.findings import findings
from laddernet.report.numbers import value
from laddernet.report.page import PageData, Pictures, RunData, page
from laddernet.report.pictures import Denoised, Surface, png
from laddernet.report.tables import Result, tabulate
from laddernet.report.writers import comparison_text, notes

pytestmark = pytest.mark.process

MODEL_IDS = ["baseline", "baseline-noise", "vanilla", "rand-init", "linear", "amlp-4", "own.py:Gate"]


@pytest.fixture(scope="module")
def data() -> PageData:
    return study(MODEL_IDS)


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


# --- The forest plot of one number of labels --------------------------------------------------------------------


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


# --- What its controls do ---------------------------------------------------------------------------------------


def by_error(data: PageData, column: int) -> list[str]:
    return [row.model for row in sorted(data.table.rows, key=lambda row: row.cells[column].aer or 0)]


def sorting(browser: Browser) -> list[str]:
    return browser.js("return [...document.querySelectorAll('#heat thead th')].map(e => e.getAttribute('aria-sort'))")


def test_heads_sort_up_then_down_then_not(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    head = browser.one("#heat thead th:nth-child(3) button")
    browser.press(head)
    assert browser.models() == by_error(data, 1)
    assert sorting(browser) == ["none", "none", "ascending"]
    first = browser.texts("#spread-panels figure:first-child .band title")
    assert [text.partition(": ")[0] for text in first] == browser.models()
    browser.press(head)
    assert browser.models() == by_error(data, 1)[::-1]
    assert sorting(browser) == ["none", "none", "descending"]
    browser.press(head)
    assert browser.models() == MODEL_IDS
    browser.press(browser.one("#heat thead th:first-child button"))
    assert browser.models() == sorted(MODEL_IDS)


def test_heads_sort_with_the_keyboard(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    head = browser.one("#heat thead th:nth-child(2) button")
    browser.js("arguments[0].focus()", head)
    for key, order in ((Keys.ENTER, by_error(data, 0)), (Keys.SPACE, by_error(data, 0)[::-1])):
        browser.driver.switch_to.active_element.send_keys(key)
        assert browser.models() == order
        assert browser.driver.switch_to.active_element == head


def test_every_control_is_reached_by_tab(browser: Browser, data: PageData) -> None:
    browser.open(page(with_pictures(data)))
    browser.js(
        "window.reached = []; addEventListener('focusin', ({ target }) => "
        "reached.push(target.closest('[id]')?.id + ' ' + target.tagName.toLowerCase()))"
    )
    ActionChains(browser.driver, duration=0).send_keys(Keys.TAB * 60).perform()
    wanted = {
        *("filter-text input", "filter-group select", "heat button", "spread-controls input", "curves-chart figure"),
        *("curves-controls select", "curves-all button", "curves-models input", "networks-controls select"),
        *("units input", "layers input", "surface canvas", "runs-text input", "runs-table button"),
    }
    assert wanted <= set(browser.js("return reached"))


def test_focus_can_be_seen(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    browser.js("document.activeElement.blur()")
    browser.one("body").send_keys(Keys.TAB, Keys.TAB, Keys.TAB)
    style = "const s = getComputedStyle(document.activeElement); return [s.outlineStyle, parseFloat(s.outlineWidth)]"
    kind, width = browser.js(style)
    assert kind == "solid"
    assert width >= 2


def test_filter_takes_part_of_a_name_and_a_group(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    text = browser.one("#filter-text")
    text.send_keys("BASE")
    assert browser.models() == ["baseline", "baseline-noise"]
    assert browser.one("#filter-count").text == "2 of 7 models"
    assert browser.texts("#curves-models label") == ["baseline", "baseline-noise"]
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "#spread-panels .mean line")) == 4
    text.send_keys(Keys.BACKSPACE * 4, Keys.ENTER)
    assert browser.models() == MODEL_IDS
    Select(browser.one("#filter-group")).select_by_visible_text("Your own")
    assert browser.models() == ["own.py:Gate"]
    text.send_keys("nothing")
    assert browser.texts("#heat tbody td") == ["No model passes the filter."]


def test_curves_are_switched_on_and_off(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    assert browser.curves() == MODEL_IDS  # few enough for all to be on
    browser.press(browser.label("#curves-models", "vanilla"))
    assert browser.curves() == [model for model in MODEL_IDS if model != "vanilla"]
    browser.label("#curves-models", "vanilla").send_keys(Keys.SPACE)
    assert browser.curves() == MODEL_IDS
    on, off = browser.driver.find_elements(By.CSS_SELECTOR, "#curves-all button")
    browser.press(off)
    assert browser.curves() == []
    assert "No curve" in browser.one("#curves-chart figcaption").text
    browser.press(on)
    assert browser.curves() == MODEL_IDS
    assert len(browser.texts(".thin path")) == 7 * 3  # each seed
    browser.press(browser.label("#curves-controls", "each seed"))
    assert browser.texts(".thin path") == []


def test_curves_show_the_quantity_and_labels_chosen(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    names = browser.texts("#curves-controls option")
    assert names[:2] == ["validation error, %", "cost"]
    assert "reconstruction cost, layer 6" in names
    Select(browser.one("#curves-controls select")).select_by_visible_text("cross entropy")
    browser.press(browser.label("#curves-controls .choice", "1,000"))
    assert browser.texts("#curves-chart [aria-label$='axis label'] text") == ["cross entropy", "epoch"]
    runs = [run for run in data.runs if (run.model, run.labels, run.status) == ("vanilla", 1000, "done")]
    average = np.mean([run.history[-1]["cross_entropy"] for run in runs])
    (shown,) = (text for text in browser.texts(".readout li") if text.startswith("vanilla"))
    assert float(shown.removeprefix("vanilla")) == pytest.approx(average, rel=1e-3)


def test_arrow_keys_read_the_curves(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    chart = browser.one("#curves-chart")
    assert browser.one("#curves-chart figcaption b").text == "Epoch 10"
    chart.send_keys(Keys.ARROW_LEFT)
    assert browser.one("#curves-chart figcaption b").text == "Epoch 8"  # every second was measured
    chart.send_keys(Keys.HOME, Keys.ARROW_LEFT)
    assert browser.one("#curves-chart figcaption b").text == "Epoch 2"


def with_pictures(data: PageData) -> PageData:
    pictures = [network_pictures(of_run(data, model, 100), model) for model in ("rand-init", "baseline")]
    return PageData(**{**vars(data), "pictures": pictures})


def test_networks_show_surfaces_and_denoising(browser: Browser, data: PageData) -> None:
    browser.open(page(with_pictures(data)))
    picture = "return document.querySelector('#surface canvas').toDataURL()"
    assert [text.strip() for text in browser.texts("#layers label")] == ["layer 0, input", "layer 1", "layer 2, top"]
    assert len(browser.texts("#surface .section path")) == 10
    before = browser.js(picture)
    browser.one("#surface canvas").send_keys(Keys.ARROW_LEFT)
    turned = browser.js(picture)
    assert turned != before
    browser.press(browser.label("#units", "unit"))
    assert browser.js(picture) != turned
    browser.one("#layers input").send_keys(Keys.ARROW_RIGHT)
    assert browser.js("return document.querySelector('#layers :checked').value") == "1"
    sizes = browser.js("return [...document.querySelectorAll('#denoising img')].map(i => i.naturalWidth)")
    assert sizes == [89] * 3 + [8] * 3 + [4] * 3  # ten digits of eight pixels and a line between two; units
    Select(browser.label("#networks-controls", "Model")).select_by_visible_text("baseline")
    assert browser.one("#networks-none").text.startswith("baseline has no decoder")
    assert not browser.one("#surface").is_displayed()


def test_runs_are_searched_and_their_details_shown(browser: Browser, data: PageData) -> None:
    browser.open(page(data))
    search = browser.one("#runs-text")
    search.send_keys("failed")
    assert browser.one("#runs-count").text == "1 of 42 runs"
    browser.one("#runs-table tbody button").send_keys(Keys.ENTER)
    assert "The cost became nan in epoch 3." in browser.one("#runs-table .details").text
    search.clear()
    search.send_keys("vanilla 00040001")
    browser.press(browser.one("#runs-table tbody button"))
    run = next(run for run in data.runs if (run.model, run.labels, run.seed) == ("vanilla", 100, 1))
    details = browser.one("#runs-table .details").text
    for text in (run.fingerprint, "1000, 500", "eta\n0.1", "seed\n1", "TFRT_CPU_0", "jax\n0.10.2"):
        assert text in details
    assert browser.one("#runs-table tbody button").get_attribute("aria-expanded") == "true"
    browser.press(browser.one("#runs-table thead th:nth-child(5) button"))
    errors = [float(text) for text in browser.texts("#runs-table tbody tr:not(.details) td:nth-child(5)")]
    assert errors == sorted(errors)


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
    images = [png(rng.integers(0, 256, shape, np.uint8)) for shape in ((28, 289), *[(10, 40)] * 6)]
    layers = [Denoised(l, l == 0, image, image, image, 0.09, 0.03, True) for l, image in enumerate(images)]
    cells = {(run.model, run.labels): run.fingerprint for run in data.runs}
    pictures = [Pictures(fingerprint, surfaces, layers) for fingerprint in cells.values()]
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
