"""The errors of laddernet. Their text is one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """Bad input.

    The text is one sentence that says what is wrong and what would be right. The command line prints it and ends with
    exit code 2.

    Examples
    --------
    >>> from laddernet import InputError, load
    >>> try:
    ...     load("digit")
    ... except InputError as error:
    ...     print(error)
    There is no data set 'digit'; perhaps digits was meant; the known ones are digits, mnist and fashion-mnist.
    """


class DivergedError(RuntimeError):
    """A run whose cost or weights became NaN or infinite.

    The text is one sentence that says at which epoch, and what diverged first. The command line prints it and ends with
    exit code 1.
    """


class BusyError(InputError):
    """Another process uses the same run's folder."""


class RemovedError(InputError):
    """The folder of a run was removed, or created again by another process, during the run."""


class ChangedError(InputError):
    """The data of a run has changed since the run was configured."""


class AbsentError(InputError):
    """A store that must exist does not."""


class MissingPackageError(InputError, ImportError):
    """A package that is part of an extra, and not installed."""


# Packages that `pip install laddernet` leaves out, by the names under which they are imported: the extra that has each.
_EXTRAS = {
    **dict.fromkeys(["equinox", "jax", "jaxlib", "jaxtyping", "optax", "tomli_w"], "train"),
    **dict.fromkeys(["jinja2", "optuna", "sqlalchemy"], "study"),
    **dict.fromkeys(["fsspec", "ray"], "ray"),
    "matplotlib": "plot",
    "onnx": "onnx",
    "psycopg": "postgres",
    "pyarrow": "parquet",
}


@contextmanager
def packages(what: str, advice: str = "") -> Iterator[None]:
    """Where a package of an extra is missing in the block, say which extra has what ``what`` needs.

    >>> try:
    ...     with packages("Training"):
    ...         raise ModuleNotFoundError("No module named 'jax'", name="jax")
    ... except InputError as error:
    ...     print(error)
    Training needs jax, which is not installed; install it with pip install 'laddernet[train]'.
    """
    try:
        yield
    except ImportError as error:
        if isinstance(error, MissingPackageError):
            raise
        words = re.findall(r"\w+", error.name or str(error))
        package = next((word for word in words if word in _EXTRAS), None)
        if package is None:
            raise
        reason = "is not installed" if isinstance(error, ModuleNotFoundError) else f"cannot be imported ({error})"
        install = f"install it with pip install 'laddernet[{_EXTRAS[package]}]'{advice}"
        raise MissingPackageError(f"{what} needs {package}, which {reason}; {install}.") from error
