"""The data sets by name: their sizes, where they are kept, and how they are loaded."""

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from laddernet.data import own
from laddernet.data.dataset import Dataset
from laddernet.data.digits import Digits
from laddernet.data.images import IMAGE_SETS, ImageSet
from laddernet.errors import InputError
from laddernet.files import cache_folder


@dataclass(frozen=True)
class DatasetInfo:
    """The description of a data set; `where` is its folder, or a note that it is not fetched."""

    name: str
    description: str
    n_train: int
    n_test: int
    n_features: int
    n_classes: int
    where: str
    cached: bool


_CATALOGUE: dict[str, Digits | ImageSet] = {"digits": Digits(), **IMAGE_SETS}


def is_file(name: str | os.PathLike[str]) -> bool:
    """Return whether this names a file of the user instead of a data set of laddernet.

    >>> is_file("mnist"), is_file("./mnist"), is_file("mine.npz")
    (False, True, True)
    """
    path = Path(name)
    return str(name) not in _CATALOGUE and bool(path.suffix or os.path.dirname(name) or path.exists())


def load(
    name: str | os.PathLike[str], *, cache: str | os.PathLike[str] | None = None, progress: bool = True
) -> Dataset:
    """Load a data set; fetch it first if it is not in the cache.

    Parameters
    ----------
    name
        ``"digits"``, ``"mnist"`` or ``"fashion-mnist"``; or an NPZ file of your own with the arrays ``x_train``,
        ``y_train``, ``x_test`` and ``y_test``, optionally ``x_unlabelled`` and ``classes``.
    cache
        The folder in which data sets are kept. By default LADDERNET_CACHE, or else the user's cache folder.
    progress
        Whether a progress bar is shown while files are fetched, if standard error is a terminal.

    Returns
    -------
    Dataset
        Training and test rows.

    Raises
    ------
    InputError
        If there is no data set of this name, its files cannot be fetched, or a file is not as described.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.x_train.shape, digits.x_test.shape, digits.n_classes
    ((1437, 64), (360, 64), 10)
    """
    if is_file(name):
        return own.load(Path(name))
    name = str(name)
    return _entry(name).load(_folder(name, cache), progress)


def fetch(name: str, *, cache: str | os.PathLike[str] | None = None, progress: bool = True) -> Path | None:
    """Fetch a data set into the cache if it is not there, and verify its files.

    Parameters
    ----------
    name, cache, progress
        As in `load`.

    Returns
    -------
    Path or None
        The folder of its files; None if the data set ships with a dependency.

    Examples
    --------
    >>> fetch("digits") is None
    True
    """
    entry = _entry(name)
    if not entry.files:
        return None
    folder = _folder(name, cache)
    entry.fetch(folder, progress)
    return folder


def known(*, cache: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """Return a description of every data set.

    Parameters
    ----------
    cache
        As in `load`.

    Returns
    -------
    list of DatasetInfo
        `cached` is true if all files are in the cache and verified.

    Examples
    --------
    >>> [info.name for info in known()]
    ['digits', 'mnist', 'fashion-mnist']
    """
    return [_info(name, entry, _folder(name, cache)) for name, entry in _CATALOGUE.items()]


def _info(name: str, entry: Digits | ImageSet, folder: Path) -> DatasetInfo:
    where = str(folder) if entry.files else "ships with scikit-learn"
    cached = all(file.is_intact_in(folder) for file in entry.files)
    sizes = (entry.n_train, entry.n_test, entry.n_features, len(entry.classes))
    return DatasetInfo(name, entry.description, *sizes, where, cached)


def _entry(name: str) -> Digits | ImageSet:
    if name in _CATALOGUE:
        return _CATALOGUE[name]
    nearest = difflib.get_close_matches(name.lower(), _CATALOGUE, n=1)
    hint = f"perhaps {nearest[0]} was meant; " if nearest else ""
    *first, last = _CATALOGUE
    raise InputError(f"There is no data set {name!r}; {hint}the known ones are {', '.join(first)} and {last}.")


def _folder(name: str, cache: str | os.PathLike[str] | None) -> Path:
    return (Path(cache).expanduser() if cache else cache_folder()) / name
