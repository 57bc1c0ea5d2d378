"""Files that are whole or absent, never half written."""

import hashlib
import os
import stat
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from platformdirs import user_cache_path

from laddernet.errors import InputError


def cache_folder() -> Path:
    """Where laddernet keeps what can be had again: LADDERNET_CACHE, or else a folder in the user's cache."""
    return Path(os.environ.get("LADDERNET_CACHE") or user_cache_path("laddernet", appauthor=False)).expanduser()


def private_cache_folder(name: str) -> Path | None:
    """Return a folder of the cache whose content may be executed: of this user, closed to others. None: there is none.

    A folder that another user owns or could write to is left alone, with a warning.
    """
    folder = cache_folder() / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name != "posix":  # there the user's profile is private
            return folder
        about = folder.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
            _warn_once(
                f"{folder} belongs to another user, or others may write to it, so it is not used as a cache; "
                "give LADDERNET_CACHE a folder of your own."
            )
            return None
        if about.st_mode & 0o077:  # made by a version that did not close it
            folder.chmod(0o700)
    except OSError:
        return None
    return folder


@cache
def _warn_once(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=3)


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Put `data` at `path`: whoever reads, after whatever crash, finds the old file or the new one, whole.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "weights"
    >>> write_atomic(path, b"new")
    >>> path.read_bytes()
    b'new'
    """
    with whole_file(path) as file:
        file.write(data)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` at the end of the block."""
    path = Path(path)
    # The same folder, because a rename is atomic only within one file system.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with writing(path):
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's content, as 64 hexadecimal digits."""
    with reading(path), Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """What the system refuses inside the block becomes an `InputError` that names `path` and the reason."""
    try:
        yield
    except OSError as error:
        advice = "name a place that exists, may be written to and has space"
        raise InputError(f"Cannot write {path} ({error.strerror or error}); {advice}.") from error


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """As `writing`, for a file that is to be read."""
    try:
        yield
    except OSError as error:
        advice = "name a file that exists and may be read"
        raise InputError(f"Cannot read {path} ({error.strerror or error}); {advice}.") from error


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut; Windows has no such call, and does not open a folder."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
