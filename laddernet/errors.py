"""The errors of laddernet. Their text is one sentence."""


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
