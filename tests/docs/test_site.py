"""Links and questions lead to what they name, and the site is built from the documents."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from documents import DOCUMENTS, ROOT, section

import laddernet

QUESTIONS = {
    "How do I cross-validate with few labels?": "LabelledKFold",
    "How do I predict in production?": "laddernet predict",
    "How many labels do I need?": "laddernet curve",
    "Which rows should I label next?": "laddernet suggest",
    "Can I use my GPU?": "jax.devices()",
    "How do I cite it?": "@inproceedings",
    "What does λ mean?": "weight of layer l's reconstruction cost",
    "How do I add a combinator?": "class Gate(Combinator)",
    "Does it work with missing values?": "filled with the median",
    "How do I run the study on a cluster?": "--executor ray",
    "Why is it worse than a forest on my table?": "`class_weight`",
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("document", ["README.md", "docs/index.md"])
def test_a_question_is_one_click_from_the_front_page_and_answered_there(document: str, question: str) -> None:
    (line,) = (line for line in (ROOT / document).read_text().splitlines() if question in line)
    ((target, anchor),) = re.findall(r"\]\(([^)#]+)#?([^)]*)\)", line)
    assert QUESTIONS[question] in section((ROOT / document).parent / target, anchor)


def test_the_readme_has_its_commands_on_lines_of_their_own_after_the_clone() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    clone = next(number for number, line in enumerate(lines) if line.startswith("git clone "))
    assert clone < lines.index("make demo") < lines.index("make test")


def test_the_api_page_has_every_public_name() -> None:
    shown = re.findall(r"^::: laddernet\.(\S+)$", (ROOT / "docs/reference/api.md").read_text(), re.MULTILINE)
    assert sorted(shown) == laddernet.__all__


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_documents_lead_somewhere(document: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^)]*)\)", re.sub(r"\]\(\w+://[^)]*\)", "", text)):
        found = (ROOT / document).parent.joinpath(target) if target else ROOT / document
        assert found.exists(), target
        if found.suffix == ".md" and found.name != "cli.md":  # its headings are generated; the site's build checks
            section(found, anchor)


@pytest.mark.process
def test_the_site_builds_without_a_warning_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    pages = {str(page.relative_to(tmp_path / "site")): page.read_text() for page in tmp_path.glob("site/**/*.html")}
    assert "--recon-weights" in pages["reference/cli.html"]
    assert "LadderClassifier" in pages["reference/api.html"]
    loaded = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//|<link[^>]*\shref="(?:https?:)?//""")
    assert not [name for name, page in pages.items() if loaded.search(page)]
