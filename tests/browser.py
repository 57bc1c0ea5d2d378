"""A page in a real browser, for tests of the report's pages."""

import json
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from support import PATIENCE


class Browser:
    """A page in a browser, and short ways to read and use it."""

    def __init__(self, driver: Chrome, folder: Path) -> None:
        self.driver = driver
        self.folder = folder

    def open(self, document: str) -> "Browser":
        file = self.folder / "page.html"
        file.write_text(document, "utf-8")
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

    def numbers(self, css: str, attribute: str) -> list[float]:
        script = "return [...document.querySelectorAll(arguments[0])].map(e => +e.getAttribute(arguments[1]))"
        return self.js(script, css, attribute)

    def resize(self, width: int) -> None:
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)

    def press(self, element: WebElement) -> None:
        """Click an element in the middle of the window, where the bar at the top does not cover it."""
        self.js("arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", element)
        element.click()

    def label(self, within: str, text: str) -> WebElement:
        """The input or list whose label begins with a text."""
        found = [e for e in self.driver.find_elements(By.CSS_SELECTOR, f"{within} label") if e.text.startswith(text)]
        return found[0].find_element(By.CSS_SELECTOR, "input, select")

    def models(self) -> list[str]:
        return self.texts("#heat tbody th b")

    def curves(self) -> list[str]:
        return self.js("return [...document.querySelectorAll('.thick path')].map(e => e.ariaLabel)")

    def errors(self) -> list[Any]:
        return self.driver.get_log("browser")

    def requests(self) -> set[str]:
        """The schemes of the addresses that were requested."""
        log = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [m["params"]["request"]["url"] for m in log if m["method"] == "Network.requestWillBeSent"]
        return {url.partition(":")[0] for url in urls}
