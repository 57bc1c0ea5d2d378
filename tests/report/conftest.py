from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from made_up import MODEL_IDS, study
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from tools import need

from laddernet.report.page import PageData


@pytest.fixture(scope="session")
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


@pytest.fixture
def browser(chromium: Chrome, tmp_path: Path) -> Iterator[Browser]:
    """Check after each test that the page has logged no error and requested nothing but itself."""
    browser = Browser(chromium, tmp_path)
    browser.errors(), browser.requests()
    yield browser
    assert browser.errors() == []
    assert browser.requests() <= {"file", "data"}


@pytest.fixture(scope="session")
def data() -> PageData:
    """A study of seven models with two numbers of labels; not to be changed."""
    return study(MODEL_IDS)
