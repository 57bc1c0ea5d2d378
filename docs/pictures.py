"""Makes what the documents show: python docs/pictures.py [labels] [table] [notebook], by default all three.

labels: the picture of docs/how-to/how-many-labels.md, and the numbers that it quotes. What was measured is kept in
docs/images/labels.json (nine minutes of a core), and measured again when the draws or the classifier's parameters are
no longer those; delete the file if the classifier itself has changed.
table: runs docs/tutorials/table.md, and puts what comes out in place of what stands there.
notebook: runs docs/tutorials/notebook.ipynb in place; it needs nbclient and ipykernel.
"""

import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer, load_digits

from laddernet import LadderClassifier, label_curve, plot_label_curve
from laddernet.classifier.curve import Point, forecast, save_picture
from laddernet.files import write_atomic
from laddernet.training.programs import keep_compiled_programs

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
KEPT = IMAGES / "labels.json"
COUNTS = [1, 2, 5, 10, 20, 50]
REPEATS = 5


def digits() -> tuple[Any, Any]:
    return load_digits(return_X_y=True)  # type: ignore[no-any-return]


def breast_cancer() -> tuple[Any, Any]:
    return load_breast_cancer(return_X_y=True)  # type: ignore[no-any-return]


def across_clusters() -> tuple[Any, Any]:
    """Six clusters of which each holds both classes: a plane through all of them divides the classes."""
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 4, (6, 10))
    across = rng.normal(size=10)
    across /= np.linalg.norm(across)
    centres -= np.outer(centres @ across, across)
    x = centres[rng.integers(0, 6, 900)] + rng.normal(size=(900, 10))
    return x, (x @ across > 0).astype(int)


SETS: dict[str, tuple[str, Callable[[], tuple[Any, Any]]]] = {
    "digits": ("Digits: 10 classes", digits),
    "breast-cancer": ("Breast cancer: 2 classes", breast_cancer),
    "across-clusters": ("Classes across clusters", across_clusters),
}


def measured(name: str) -> list[Point]:
    """The curve of a data set, from the file if it holds this very one."""
    classifier = LadderClassifier()
    how = {"counts": COUNTS, "repeats": REPEATS, "classifier": json.loads(json.dumps(classifier.get_params()))}
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if kept.get(name, {}).get("how") != how:
        points = label_curve(classifier, *SETS[name][1](), counts=COUNTS, repeats=REPEATS)
        kept[name] = {"how": how, "points": [asdict(point) for point in points]}
        write_atomic(KEPT, (json.dumps(kept, indent=1) + "\n").encode())
    return [
        Point(**{key: tuple(value) if isinstance(value, list) else value for key, value in point.items()})
        for point in kept[name]["points"]
    ]


def labels() -> None:
    keep_compiled_programs()
    curves = {name: measured(name) for name in SETS}
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for ax, (name, points) in zip(figure.subplots(1, len(curves)), curves.items(), strict=True):
        plot_label_curve(points, ax=ax, title=SETS[name][0])
        print(f"\n{name}, error in %, on {points[0].judged} rows, mean ± standard error of {REPEATS} draws")
        for point in points:
            cells = (f"{point.shown(alone):>12}" for alone in (False, True))
            print(f"| {point.per_class:2} |", " | ".join(cells), "|")
        print(forecast(points))
    for ax in figure.axes[1:]:
        ax.set_ylabel("")
        ax.legend().remove()
    save_picture(figure, IMAGES / "labels.svg")


def table() -> None:
    """Run the blocks of the tutorial in order; a block of text after one is what it prints."""
    document = DOCS / "tutorials" / "table.md"
    names: dict[str, Any] = {}

    def run(found: re.Match[str]) -> str:
        language, block, shown = found.groups()
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(block, names)
            out = said.getvalue()
        else:
            out = subprocess.run(["sh", "-ec", block], check=True, stdout=subprocess.PIPE, text=True).stdout
        return f"```{language}\n{block}```\n" + (f"\n```text\n{out}```\n" if shown else "")

    blocks = re.compile(r"^```(sh|python)\n(.*?)^```\n(\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        text = blocks.sub(run, document.read_text())
        write_atomic(IMAGES / "tutorial-curve.svg", Path("curve.svg").read_bytes())
    write_atomic(document, text.encode())


def notebook() -> None:
    import nbformat
    from nbclient import NotebookClient

    path = DOCS / "tutorials" / "notebook.ipynb"
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(book, resources={"metadata": {"path": folder}}, record_timing=False).execute()
    for cell in book.cells:  # a busy machine's compiler complains there
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    book.metadata = {name: book.metadata[name] for name in ("kernelspec", "language_info")}
    write_atomic(path, (nbformat.writes(book) + "\n").encode())


PARTS = {"labels": labels, "table": table, "notebook": notebook}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
