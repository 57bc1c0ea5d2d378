"""The page in a real browser: it says what the study says, its controls do what they say, and it is safe."""

import base64
import io
import json
import math
import random
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait
from support import PATIENCE, wait_for
from tools import need

from laddernet.network.combinators import Combinator, PerUnit, initially
from laddernet.network.ladder import Ladder
from laddernet.network.models import MODELS, AnyModel, find
from laddernet.report.page import PageData, Pictures, RunData, page
from laddernet.report.pictures import Denoised, Surface, combinator_surfaces, denoising, png
from laddernet.report.tables import Result, tabulate

pytestmark = pytest.mark.process

HOSTILE = ["<img src=x onerror=alert(1)>", "</script><script>document.title='taken'</script>", "a&amp;b\u2028\u202e\"'"]
ENVIRONMENT = {"python": "3.11.7", "cores": 2, "devices": ["TFRT_CPU_0"], "packages": {"jax": "0.10.2"}}


def history(rng: random.Random, error: float, epochs: int, layers: int) -> list[dict[str, Any]]:
    """Curves of the usual form; the validation error is known every second epoch."""
    records = []
    for epoch in range(1, epochs + 1):
        left = math.exp(-6 * epoch / epochs) * rng.uniform(0.95, 1.05)
        record = {"epoch": epoch, "cost": 0.4 + 9 * left, "cross_entropy": 0.01 + 2 * left, "learning_rate": 0.02}
        record |= {f"reconstruction_{l}": 0.2 + left / (l + 1) * rng.uniform(0.9, 1.1) for l in range(layers)}
        if epoch % 2 == 0 or epoch == epochs:
            record["validation_error"] = error * (1 + 8 * left)
        records.append(record)
    return records


def study(
    models: list[str],
    labels: tuple[int, ...] = (100, 1000),
    seeds: int = 3,
    epochs: int = 10,
    pictures: list[Pictures] | None = None,
) -> PageData:
    """A study whose models are worse the later they come, but for a run that failed and one that waits."""
    rng = random.Random(0)
    runs = []
    for place, (model, count) in enumerate((model, count) for model in models for count in labels):
        for seed in range(seeds):
            key = {"fingerprint": f"{place:04x}{seed:04x}" + "ab" * 28, "model": model, "labels": count, "seed": seed}
            config = {"data": "mnist", "labels": count, "model": model, "hidden": [1000, 500], "eta": 0.1, "seed": seed}
            if seed == seeds - 1 and place in (1, 3):
                status, message = ("failed", "The cost became nan in epoch 3.") if place == 1 else ("waiting", None)
                runs.append(RunData(**key, status=status, message=message, config=config))
                continue
            error = (1 + models.index(model)) * (100 / count) ** 0.4 * rng.uniform(0.9, 1.1)
            records = history(rng, error, epochs, layers=7)
            runs.append(RunData(**key, status="done", error=error, seconds=61.25, config=config,
                                environment=ENVIRONMENT, history=records))  # fmt: skip
    results = [Result(run.model, run.labels, run.seed, run.error) for run in runs if run.error is not None]
    table = tabulate(
        results,
        data="mnist",
        wanted={(model, count): seeds for model in models for count in labels},
        failed={(run.model, run.labels): 1 for run in runs if run.status == "failed"},
    )
    return PageData("A study of mnist", "mnist", "2026-11-01 12:00", "laddernet study", table, runs, pictures or [])


def of_run(data: PageData, model: str, labels: int) -> str:
    return next(run.fingerprint for run in data.runs if (run.model, run.labels) == (model, labels))


def network(model: AnyModel, sizes: tuple[int, ...]) -> Ladder:
    return jax.jit(lambda key: Ladder(find(model), sizes, key=key))(jax.random.key(0))


@cache
def network_pictures(fingerprint: str, model: str = "rand-init") -> Pictures:
    ladder = network(model, (64, 8, 4))
    x = np.random.default_rng(0).random((50, 64), np.float32)
    layers = denoising(ladder, x, [0.3] * 3, key=jax.random.key(1), image_shape=(8, 8))
    return Pictures(fingerprint, combinator_surfaces(ladder), layers)


# --- The browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    program, driver_program = need("browser")
    options = ChromeOptions()
    options.binary_location = program
    quiet = ["quic", "background-networking", "component-update", "sync", "gpu", "dev-shm-usage", "extensions"]
    profile = tmp_path_factory.mktemp("profile")
    for option in ("headless", "no-sandbox", "no-first-run", *(f"disable-{what}" for what in quiet)):
        options.add_argument(f"--{option}")
    options.add_argument(f"--user-data-dir={profile}")
    options.add_argument("--window-size=1360,900")
    options.add_argument("--force-prefers-reduced-motion")  # a page that still glides moves away from under a click
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options, ChromeService(driver_program))
    driver.get("about:blank")
    yield driver
    driver.quit()


class Browser:
    """The page in the browser, and short ways to ask it."""

    def __init__(self, driver: Chrome, folder: Path) -> None:
        self.driver = driver
        self.folder = folder

    def open(self, data: PageData) -> "Browser":
        file = self.folder / "page.html"
        file.write_text(page(data), "utf-8")
        return self.load(file)

    def load(self, file: Path) -> "Browser":
        self.driver.get(file.as_uri())
        WebDriverWait(self.driver, PATIENCE, 0.02).until(
            lambda _: self.js("return document.documentElement.dataset.ready")
        )
        return self

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def cdp(self, command: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, parameters)

    def one(self, css: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def texts(self, css: str) -> list[str]:
        return self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", css)

    def press(self, element: WebElement) -> None:
        """Click where a person would: on what is in the middle of the window, not under the bar at its top."""
        self.js("arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", element)
        element.click()

    def label(self, within: str, text: str) -> WebElement:
        """The input or list whose label begins with a text."""
        found = [e for e in self.driver.find_elements(By.CSS_SELECTOR, f"{within} label") if e.text.startswith(text)]
        return found[0].find_element(By.CSS_SELECTOR, "input, select")

    def models(self) -> list[str]:
        return self.texts("#heat tbody th b")

    def curves(self) -> list[str]:
        return self.js("return [...document.querySelectorAll('g.curve')].map(e => e.dataset.model)")

    def errors(self) -> list[Any]:
        return self.driver.get_log("browser")

    def requests(self) -> set[str]:
        """The kinds of address that were asked for."""
        log = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [m["params"]["request"]["url"] for m in log if m["method"] == "Network.requestWillBeSent"]
        return {url.partition(":")[0] for url in urls}


@pytest.fixture
def browser(chromium: Chrome, tmp_path: Path) -> Iterator[Browser]:
    """Whatever a test does, the page must not complain, nor ask for anything but itself."""
    browser = Browser(chromium, tmp_path)
    browser.errors(), browser.requests()
    yield browser
    assert browser.errors() == []
    assert browser.requests() <= {"file", "data"}


MODEL_IDS = ["baseline", "baseline-noise", "vanilla", "rand-init", "linear", "amlp-4", "own.py:Gate"]


@pytest.fixture(scope="module")
def data() -> PageData:
    return study(MODEL_IDS)


# --- What it shows ----------------------------------------------------------------------------------------------


def test_table_says_what_the_study_says(browser: Browser, data: PageData) -> None:
    browser.open(data)
    assert browser.models() == MODEL_IDS
    cells = browser.texts("#heat tbody td")
    assert len(cells) == len(MODEL_IDS) * 2
    for cell, shown in zip((cell for row in data.table.rows for cell in row.cells), cells, strict=True):
        assert cell.aer is not None
        assert f"{cell.aer:.3f} ± {cell.se:.3f}" in shown
        assert ("★" in shown) == cell.best
        assert ("(2/3" in shown) == (cell.n == 2)
        assert ("1 failed" in shown) == (cell.failed == 1)
        if cell.paper_aer is not None:
            assert f"paper {cell.paper_aer:.3f}" in shown
    assert "Spearman" in " ".join(browser.texts("#table-notes li"))
    assert browser.texts("#tiles strong")[0] == "40 of 42"


def test_equal_errors_are_not_shown_as_certain(browser: Browser, data: PageData) -> None:
    results = [Result("vanilla", 100, seed, 1.5) for seed in range(3)]
    browser.open(replace(data, table=tabulate(results, data="mnist")))
    assert "1.500" in browser.one("#heat tbody").text
    assert not browser.driver.find_elements(By.CSS_SELECTOR, "#heat span.se")
    assert not browser.driver.find_elements(By.CSS_SELECTOR, "#spread-panels rect.se")


def test_welch_tests_are_shown_when_asked_for(browser: Browser, data: PageData) -> None:
    browser.open(data)
    assert "to vanilla, p" not in browser.one("#heat").text
    browser.press(browser.label("#table-controls", "Welch"))
    linear = browser.one("#heat tr[data-model=linear] td").text
    test = next(row for row in data.table.rows if row.model == "linear").cells[0].welch
    assert test is not None
    assert f"{test.difference:+.3f} to vanilla, p" in linear


def test_spread_has_a_dot_for_each_seed(browser: Browser, data: PageData) -> None:
    browser.open(data)
    finished = [sum(run.labels == labels and run.status == "done" for run in data.runs) for labels in (100, 1000)]
    panels = browser.driver.find_elements(By.CSS_SELECTOR, "#spread-panels figure")
    assert [len(panel.find_elements(By.CSS_SELECTOR, "circle.seed")) for panel in panels] == finished
    assert [len(panel.find_elements(By.CSS_SELECTOR, "line.mean")) for panel in panels] == [7, 7]


def test_study_without_any_run_opens(browser: Browser) -> None:
    browser.open(PageData("Empty", "digits", "now", "laddernet study", tabulate([], data="digits")))
    assert browser.texts("#heat tbody td") == ["No model passes the filter."]
    assert not browser.one("#curves").is_displayed()
    assert not browser.one("#networks").is_displayed()


# --- What its controls do ---------------------------------------------------------------------------------------


def by_error(data: PageData, column: int) -> list[str]:
    return [row.model for row in sorted(data.table.rows, key=lambda row: row.cells[column].aer or 0)]


def sorting(browser: Browser) -> list[str]:
    return browser.js("return [...document.querySelectorAll('#heat thead th')].map(e => e.getAttribute('aria-sort'))")


def test_heads_sort_up_then_down_then_not(browser: Browser, data: PageData) -> None:
    browser.open(data)
    head = browser.one("#heat thead th:nth-child(3) button")
    browser.press(head)
    assert browser.models() == by_error(data, 1)
    assert sorting(browser) == ["none", "none", "ascending"]
    first = browser.texts("#spread-panels figure:first-child svg > g > title")
    assert [text.partition(": ")[0] for text in first] == browser.models()
    browser.press(head)
    assert browser.models() == by_error(data, 1)[::-1]
    assert sorting(browser) == ["none", "none", "descending"]
    browser.press(head)
    assert browser.models() == MODEL_IDS
    browser.press(browser.one("#heat thead th:first-child button"))
    assert browser.models() == sorted(MODEL_IDS)


def test_heads_sort_with_the_keyboard(browser: Browser, data: PageData) -> None:
    browser.open(data)
    head = browser.one("#heat thead th:nth-child(2) button")
    browser.js("arguments[0].focus()", head)
    for key, order in ((Keys.ENTER, by_error(data, 0)), (Keys.SPACE, by_error(data, 0)[::-1])):
        browser.driver.switch_to.active_element.send_keys(key)
        assert browser.models() == order
        assert browser.driver.switch_to.active_element == head


def test_every_control_is_reached_by_tab(browser: Browser, data: PageData) -> None:
    browser.open(with_pictures(data))
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
    browser.open(data)
    browser.js("document.activeElement.blur()")
    browser.one("body").send_keys(Keys.TAB, Keys.TAB, Keys.TAB)
    style = "const s = getComputedStyle(document.activeElement); return [s.outlineStyle, parseFloat(s.outlineWidth)]"
    kind, width = browser.js(style)
    assert kind == "solid"
    assert width >= 2


def test_filter_takes_part_of_a_name_and_a_group(browser: Browser, data: PageData) -> None:
    browser.open(data)
    text = browser.one("#filter-text")
    text.send_keys("BASE")
    assert browser.models() == ["baseline", "baseline-noise"]
    assert browser.one("#filter-count").text == "2 of 7 models"
    assert browser.texts("#curves-models label") == ["baseline", "baseline-noise"]
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "#spread-panels line.mean")) == 4
    text.send_keys(Keys.BACKSPACE * 4, Keys.ENTER)
    assert browser.models() == MODEL_IDS
    Select(browser.one("#filter-group")).select_by_visible_text("Your own")
    assert browser.models() == ["own.py:Gate"]
    text.send_keys("nothing")
    assert browser.texts("#heat tbody td") == ["No model passes the filter."]


def test_curves_are_switched_on_and_off(browser: Browser, data: PageData) -> None:
    browser.open(data)
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
    assert len(browser.texts("path.thin")) == 7
    browser.press(browser.label("#curves-controls", "each seed"))
    assert browser.texts("path.thin") == []


def test_curves_show_the_quantity_and_labels_chosen(browser: Browser, data: PageData) -> None:
    browser.open(data)
    names = browser.texts("#curves-controls option")
    assert names[:2] == ["validation error, %", "cost"]
    assert "reconstruction cost, layer 6" in names
    Select(browser.one("#curves-controls select")).select_by_visible_text("cross entropy")
    browser.press(browser.label("#curves-controls .choice", "1,000"))
    assert browser.texts("#curves-chart .title") == ["epoch", "cross entropy"]
    runs = [run for run in data.runs if (run.model, run.labels, run.status) == ("vanilla", 1000, "done")]
    average = np.mean([run.history[-1]["cross_entropy"] for run in runs])
    (shown,) = (text for text in browser.texts(".readout li") if text.startswith("vanilla"))
    assert float(shown.removeprefix("vanilla")) == pytest.approx(average, rel=1e-3)


def test_arrow_keys_read_the_curves(browser: Browser, data: PageData) -> None:
    browser.open(data)
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
    browser.open(with_pictures(data))
    picture = "return document.querySelector('#surface canvas').toDataURL()"
    assert [text.strip() for text in browser.texts("#layers label")] == ["layer 0, input", "layer 1", "layer 2, top"]
    assert len(browser.texts("#surface .section")) == 10
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
    browser.open(data)
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


def test_text_of_a_user_stays_text(browser: Browser) -> None:
    data = study(["vanilla", *HOSTILE], seeds=2)
    runs = [
        RunData(**{**vars(run), "message": HOSTILE[1], "config": {HOSTILE[0]: HOSTILE}, "environment": {"a": HOSTILE}})
        for run in data.runs
    ]
    marks = dict.fromkeys(("title", "data", "created", "command"), "".join(HOSTILE))
    pictures = [network_pictures(of_run(data, HOSTILE[0], 100))]
    document = page(PageData(**{**vars(data), **marks, "runs": runs, "pictures": pictures}))
    assert len(re.findall(r"<script", document)) == 4  # three of data and the page's own
    assert "<img" not in document
    browser.folder.joinpath("page.html").write_text(document, "utf-8")
    browser.load(browser.folder / "page.html")
    assert browser.driver.title == "".join(HOSTILE)
    assert sorted(browser.models()) == sorted(["vanilla", *HOSTILE])
    for button in browser.driver.find_elements(By.CSS_SELECTOR, "#runs-table tbody button"):
        browser.js("arguments[0].click()", button)
    assert HOSTILE[0] in browser.one("#runs-table .details").text
    browser.js("document.querySelectorAll('#curves-all button').forEach(button => button.click())")
    assert browser.texts("img:not(#denoising img)") == []
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "script")) == 4


def test_policy_refuses_what_would_be_injected(browser: Browser, data: PageData) -> None:
    browser.open(data)
    browser.js(
        "const s = document.createElement('script'); s.textContent = 'window.taken = 1'; document.body.append(s)"
    )
    browser.js("const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i)")
    assert browser.js("return window.taken") is None
    refused: list[str] = []
    wait_for(lambda: refused.extend(entry["message"] for entry in browser.errors()) or len(refused) == 2)
    assert all("Content Security Policy" in message for message in refused)
    browser.requests()  # that the image was asked for is recorded although it was refused


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
    browser.cdp("Emulation.setDeviceMetricsOverride", width=420, height=800, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(with_pictures(data))
        assert browser.js("return document.documentElement.scrollWidth") <= 420
    finally:
        browser.cdp("Emulation.clearDeviceMetricsOverride")
    document = base64.b64decode(browser.cdp("Page.printToPDF", printBackground=True)["data"])
    assert document.startswith(b"%PDF")


def test_page_follows_the_colour_scheme(browser: Browser, data: PageData) -> None:
    colours = []
    for scheme in ("light", "dark"):
        browser.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.open(data)
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


class Between(Combinator):
    """Its units trust z̃ wholly, less and less, and not at all."""

    w: PerUnit = initially(0.0)

    def __call__(self, z_tilde: Any, u: Any) -> Any:
        w = jax.numpy.linspace(1, 0, len(self.w)) + self.w
        return w * z_tilde + (1 - w) * u * u


def test_surfaces_are_those_of_the_combinator() -> None:
    surfaces = combinator_surfaces(network(Between, (3, 2)), [0], points=5, limit=2.0)
    u, z_tilde = np.meshgrid(np.arange(-2, 3), np.arange(-2, 3), indexing="ij")
    assert [(surface.layer, surface.name) for surface in surfaces[:2]] == [
        (0, "mean of 3 units"),
        (0, "unit 1, the most typical"),
    ]
    half = 0.5 * z_tilde + 0.5 * u * u
    assert surfaces[0].axis == [-2, -1, 0, 1, 2]
    assert surfaces[0].z_hat == half.tolist()
    assert surfaces[1].z_hat == half.tolist()
    assert surfaces[2].z_hat in (z_tilde.tolist(), (u * u).tolist())


def test_network_without_a_decoder_has_no_pictures() -> None:
    found = network_pictures("", "baseline")
    assert found == Pictures("", [], [])


def test_denoising_says_how_much_noise_there_was() -> None:
    ladder = network("first-noise-recons", (64, 8, 4))
    x = np.random.default_rng(0).random((400, 64), np.float32)
    layers = denoising(ladder, x, [0.3, 0, 0], key=jax.random.key(1))
    assert layers[0].noisy_error == pytest.approx(0.09, rel=0.05)
    assert [layer.counted for layer in layers] == [True, False, False]
    assert not layers[0].images


def test_png_holds_the_pixels() -> None:
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    stream = io.BytesIO(base64.b64decode(png(pixels).removeprefix("data:image/png;base64,")))
    assert stream.read(8) == b"\x89PNG\r\n\x1a\n"
    chunks = {}
    while header := stream.read(8):
        body = stream.read(int.from_bytes(header[:4]))
        assert int.from_bytes(stream.read(4)) == zlib.crc32(header[4:] + body)
        chunks[header[4:]] = body
    assert chunks[b"IHDR"][:8] == (3).to_bytes(4) + (2).to_bytes(4)
    assert zlib.decompress(chunks[b"IDAT"]) == bytes([0, 0, 1, 2, 0, 3, 4, 5])
