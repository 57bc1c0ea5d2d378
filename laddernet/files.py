"""Files that are whole or absent, never half written."""

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from platformdirs import user_cache_path

from laddernet.errors import BusyError, InputError


def cache_folder() -> Path:
    """Where laddernet keeps what can be had again: LADDERNET_CACHE, or else a folder in the user's cache."""
    return Path(os.environ.get("LADDERNET_CACHE") or user_cache_path("laddernet", appauthor=False)).expanduser()


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


@contextmanager
def locked(path: str | os.PathLike[str], *, busy: str, timeout: float = -1) -> Iterator[None]:
    """Keep other processes out of the block; raise `BusyError` with the sentence `busy` after `timeout` seconds.

    The system gives the lock back when its process ends, however it ends. The file is not written to, and a symbolic
    link in its place is refused.
    """
    from filelock import FileLock, Timeout  # takes longer to import than all else here

    if os.path.islink(path):
        raise InputError(f"{path} is a symbolic link where a lock file should be; remove it.")
    lock = FileLock(path, timeout=timeout)
    with writing(path):
        try:
            lock.acquire()
        except Timeout as error:
            raise BusyError(busy) from error
    try:
        yield
    finally:
        lock.release()


def open_unlinked(path: str | os.PathLike[str], mode: Literal["ab", "wb"]) -> BinaryIO:
    """Open a file for writing, but not through a symbolic link that somebody else may have put in its place."""

    def no_links(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    return open(path, mode, opener=no_links)


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
