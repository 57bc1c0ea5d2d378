"""What a page does with text of a user, and what its policy refuses."""

import hashlib
import re
from importlib import resources

import pytest
from browser import Browser
from made_up import HOSTILE, network_pictures, of_run, study
from selenium.webdriver.common.by import By
from support import wait_for

from laddernet.report.page import PageData, RunData, page

pytestmark = pytest.mark.process


def test_text_of_a_user_stays_text(browser: Browser) -> None:
    data = study(["vanilla", *HOSTILE], seeds=2)
    runs = [
        RunData(**{**vars(run), "message": HOSTILE[1], "config": {HOSTILE[0]: HOSTILE}, "environment": {"a": HOSTILE}})
        for run in data.runs
    ]
    marks = dict.fromkeys(("title", "data", "created", "command"), "".join(HOSTILE))
    pictures = [network_pictures(of_run(data, HOSTILE[0], 100))]
    document = page(PageData(**{**vars(data), **marks, "runs": runs, "pictures": pictures}))
    assert len(re.findall(r"<script", document)) == 7  # four of data, two libraries and the page's own
    assert "<img" not in document
    browser.open(document)
    assert browser.driver.title == "".join(HOSTILE)
    assert sorted(browser.models()) == sorted(["vanilla", *HOSTILE])
    for button in browser.driver.find_elements(By.CSS_SELECTOR, "#runs-table tbody button"):
        browser.js("arguments[0].click()", button)
    assert HOSTILE[0] in browser.one("#runs-table .details").text
    browser.js("document.querySelectorAll('#curves-all button').forEach(button => button.click())")
    assert browser.texts("img:not(#denoising img, #samples img)") == []
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "script")) == 7


def test_policy_refuses_what_would_be_injected(browser: Browser) -> None:
    browser.open(page(study(["vanilla"])))
    browser.js(
        "const s = document.createElement('script'); s.textContent = 'window.taken = 1'; document.body.append(s)"
    )
    browser.js("const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i)")
    assert browser.js("return window.taken") is None
    refused: list[str] = []
    wait_for(lambda: refused.extend(entry["message"] for entry in browser.errors()) or len(refused) == 2)
    assert all("Content Security Policy" in message for message in refused)
    browser.requests()  # that the image was asked for is recorded although it was refused


@pytest.mark.parametrize("library", ["d3", "plot"])
def test_libraries_are_those_of_their_packages(library: str) -> None:
    vendor = resources.files("laddernet.report").joinpath("assets", "vendor")
    (row,) = (
        line for line in vendor.joinpath("README.md").read_text().splitlines() if line.startswith(f"| {library}.")
    )
    assert hashlib.sha256(vendor.joinpath(f"{library}.min.js").read_bytes()).hexdigest() in row
    assert "ISC" in row
    assert vendor.joinpath(f"{library}.LICENSE").read_text().startswith("Copyright 20")
