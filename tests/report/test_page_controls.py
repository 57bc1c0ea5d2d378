"""The controls of a study's page in a real browser: what they change, with the mouse and with the keyboard."""

import numpy as np
import pytest
from browser import Browser
from made_up import MODEL_IDS, by_error, with_pictures
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from laddernet.report.page import PageData, page

pytestmark = pytest.mark.process


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
    sizes = browser.js(
        "return [...document.querySelectorAll('#samples img')].map(i => [i.naturalWidth, i.naturalHeight])"
    )
    assert sizes == [[8 * 9 - 1, 4 * 9 - 1], [12 * 9 - 1, 4 * 9 - 1]]  # samples and steps of each of four classes
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
