from pathlib import Path
from xml.etree import ElementTree

import pytest

from laddernet.classifier.curve import save_picture
from laddernet.errors import InputError
from laddernet.report.estimate import plot_calibration, plot_confusion
from laddernet.table.estimate import Bin, Estimate

ESTIMATE = Estimate(
    5,
    48,
    60,
    3.5,
    spread=0.0,
    majority_error=40.0,
    repeats=2,
    confusion=((0, 0, 30.0), (1, 0, 3.5), (1, 1, 26.5)),
    bins=(Bin(60.0, 26.5, 30), Bin(90.0, 30.0, 30)),
)


def texts(svg: Path) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_a_confusion_matrix_has_its_classes_and_counts(tmp_path: Path) -> None:
    save_picture(plot_confusion(ESTIMATE, ["$a$", "b\x1b"]), tmp_path / "c.svg")
    shown = texts(tmp_path / "c.svg")
    assert {"$a$", r"b\x1b", "30", "3.5", "26.5", "3.5 of 60 held-out rows wrong"} <= set(shown)
    assert shown.count("30") == 1


def test_of_many_classes_only_the_shades_are_shown() -> None:
    figure = plot_confusion(ESTIMATE, [str(number) for number in range(25)])
    assert not figure.axes[0].texts


def test_calibration_is_the_share_of_right_rows_with_its_interval() -> None:
    (ax,) = plot_calibration(ESTIMATE).axes
    (container,) = ax.containers
    points, _, (bars,) = container.lines
    assert points.get_xdata().tolist() == [60.0, 90.0]
    assert points.get_ydata().tolist() == pytest.approx([100 * 26.5 / 30, 100.0])
    (_, low), (_, high) = bars.get_segments()[1]
    assert (low, high) == (pytest.approx(100 * 0.05 ** (1 / 30)), 100.0)


def test_what_was_not_measured_is_not_drawn() -> None:
    bare = Estimate(3, 8, 12, 1, spread=0.0, majority_error=50.0)
    with pytest.raises(InputError, match="older version"):
        plot_confusion(bare, ["a", "b"])
    with pytest.raises(InputError, match="calibration needs forty labelled rows"):
        plot_calibration(bare)
