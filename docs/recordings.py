"""Outputs of commands, notebooks and pages, as the documents show them."""

import base64
import contextlib
import io
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from laddernet.files import write_atomic

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
TUTORIAL = DOCS / "tutorials" / "table.md"
TOP_HALF = 1100  # pixels of a study's page
BLOCKS = re.compile(r"^```(sh|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def table() -> None:
    """Run the blocks of the tutorial in order, and put their outputs in the blocks of text that follow them."""
    names: dict[str, Any] = {}

    def run(found: re.Match[str]) -> str:
        language, block, shown = found.groups()
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(block, names)
            out = said.getvalue()
        else:
            out = subprocess.run(["sh", "-ec", block], check=True, stdout=subprocess.PIPE, text=True).stdout
        return f"```{language}\n{block}```\n" + (f"\n```text\n{out}```\n" if shown is not None else "")

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        text = BLOCKS.sub(run, TUTORIAL.read_text())
        write_atomic(IMAGES / "tutorial-curve.svg", Path("curve.svg").read_bytes())
    write_atomic(TUTORIAL, text.encode())


# --- The terminal ----------------------------------------------------------------------------------------------------

LIGHT = TerminalTheme(
    (246, 248, 250), (31, 35, 40), [(0, 0, 0), (207, 34, 46), (17, 99, 41), (77, 45, 0), (9, 80, 174)]
)
# Rich's own template without the fonts that it would load from another host, and without the window's title bar.
FRAME = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g>
</svg>
"""


def terminal(folder: Path = IMAGES) -> None:
    """Draw the first round of the tutorial as a terminal: fit, suggest, fit with the new labels."""
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for number, (command, output, note) in enumerate(_rounds()):
        if number:
            console.print()
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        for line in output:
            console.print(Text(line))
        console.print(Text(f"# {note}", style="bold blue"))
    svg = console.export_svg(title="", theme=LIGHT, code_format=FRAME, unique_id="terminal")
    write_atomic(folder / "terminal.svg", svg.encode())


def _rounds() -> list[tuple[str, list[str], str]]:
    """Return the commands of the tutorial's first round, the main lines of their outputs and a comment on each."""
    blocks = [(block, (out or "").splitlines()) for _, block, out in BLOCKS.findall(TUTORIAL.read_text())]
    errors = [out[0] for block, out in blocks if 'print(f"{error()' in block]
    fits = [(block.splitlines()[0], out) for block, out in blocks if block.startswith("laddernet fit")]
    (suggest,) = ((block.strip(), out) for block, out in blocks if block.startswith("laddernet suggest"))
    counts = re.compile(r"  |Not used|\d+ rows; saved")  # labels of each class, unused columns, the output of predict
    notes = [errors[0], "a person fills in the labels", errors[1]]
    return [
        (command, [line for line in out if not counts.match(line)], note)
        for (command, out), note in zip([fits[0], suggest, fits[1]], notes, strict=True)
    ]


# --- The page of a study ---------------------------------------------------------------------------------------------


def page(study: Path = Path("study-demo")) -> None:
    """Take pictures of a study's page: its top half, and the section on what a network learned."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
    for option in ("headless=new", "no-sandbox", "hide-scrollbars", "window-size=1240,1200"):
        options.add_argument(f"--{option}")
    browser = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
    try:
        browser.get((study / "report.html").absolute().as_uri())
        whole = "document.documentElement.getBoundingClientRect()"
        for name, area, height in (
            ("study-page", whole, TOP_HALF),
            ("study-network", "document.getElementById('networks').getBoundingClientRect()", None),
        ):
            found = browser.execute_script(f"return {area}.toJSON()")
            clip = {key: found[key] for key in ("x", "y", "width")} | {"height": height or found["height"], "scale": 1}
            how = {"format": "png", "clip": clip, "captureBeyondViewport": True}
            shot = browser.execute_cdp_cmd("Page.captureScreenshot", how)
            write_atomic(IMAGES / f"{name}.png", base64.b64decode(shot["data"]))
    finally:
        browser.quit()


def notebook() -> None:
    """Run the notebook in place, and keep its outputs."""
    import nbformat
    from nbclient import NotebookClient

    path = DOCS / "tutorials" / "notebook.ipynb"
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(book, resources={"metadata": {"path": folder}}, record_timing=False).execute()
    for cell in book.cells:  # a busy machine's compiler prints warnings there
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    book.metadata = {name: book.metadata[name] for name in ("kernelspec", "language_info")}
    write_atomic(path, (nbformat.writes(book) + "\n").encode())
