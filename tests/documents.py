"""The documents, and ways to run what they show."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BIN = Path(sys.executable).parent
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "docs/**/*.ipynb", "results/**/*.md")
    for path in ROOT.glob(pattern)
)


def blocks(document: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)


def run(document: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in blocks(document):
        exec(compile(block, document, "exec"), names)
    return names


def shell(command: str) -> str:
    """Return what a block of commands prints, with this environment's programs."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["sh", "-ec", command], capture_output=True, text=True, env=os.environ | {"PATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def section(path: Path, anchor: str) -> str:
    """Return a page, or the part of it below the heading that an anchor names."""
    text = path.read_text()
    if not anchor:
        return text
    for heading, part in re.findall(r"^#+ (.+?)\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL):
        if re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") == anchor:
            return str(part)
    raise AssertionError(f"{path} has no heading {anchor}")
