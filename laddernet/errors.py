"""What a user did wrong, told so that it can be put right."""


class InputError(ValueError):
    """Bad input by a user: its text is one sentence that says what is wrong and what would be right."""


class DivergedError(RuntimeError):
    """A run whose cost or weights became NaN or infinite: one sentence that says when, and what went first."""


class BusyError(InputError):
    """Another process is at work on the same run."""


class RemovedError(InputError):
    """The folder of a run was removed, or made anew by another process, while the run was under way."""


class AbsentError(InputError):
    """There is no study where one was looked for."""
