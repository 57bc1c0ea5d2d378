"""Files that are written completely or not at all, locks, and bounded reading."""

import errno
import hashlib
import json
import os
import stat
import tomllib
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal

from platformdirs import user_cache_path

from laddernet.errors import BusyError, InputError

_SMALL = 1 << 24  # bytes: the largest file of settings that is read
_MANY = "close other files, or raise the limit on open files (ulimit -n)"
_ADVICE = {errno.ENAMETOOLONG: "give it a shorter name", errno.EMFILE: _MANY, errno.ENFILE: _MANY}


def cache_folder() -> Path:
    """Return the cache folder: LADDERNET_CACHE, or else a folder in the user's cache."""
    return Path(os.environ.get("LADDERNET_CACHE") or user_cache_path("laddernet", appauthor=False)).expanduser()


def private_cache_folder(name: str) -> Path | None:
    """Return a folder of the cache that is safe for executable files, or None if there is none.

    Such a folder belongs to this user and is closed to others. If another user owns it or can write to it, it is not
    used, with a warning.
    """
    folder = cache_folder() / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name != "posix":  # the user's profile on Windows is private
            return folder
        about = folder.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
            _warn_once(
                f"{folder} belongs to another user, or others may write to it, so it is not used as a cache; "
                "set LADDERNET_CACHE to a folder of your own."
            )
            return None
        if about.st_mode & 0o077:  # created by an earlier version
            folder.chmod(0o700)
    except OSError:
        return None
    return folder


@cache
def _warn_once(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=3)


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path`. At any moment, also after a crash, the complete old or the complete new file is there.

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
    """Yield a file that replaces `path` at the end of the block."""
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

    The system releases the lock when the process ends in any way. The file is not written to. A symbolic link in its
    place is refused, and so is a folder that does not exist, which filelock would create.
    """
    from filelock import FileLock, Timeout  # takes longer to import than all else here

    if os.path.islink(path):
        raise InputError(f"{path} is a symbolic link where a lock file should be; remove it.")
    lock = FileLock(path, timeout=timeout)
    with writing(path):
        os.stat(os.path.dirname(path) or ".")
        try:
            lock.acquire()
        except Timeout as error:
            raise BusyError(busy) from error
    try:
        yield
    finally:
        lock.release()


def open_unlinked(path: str | os.PathLike[str], mode: Literal["ab", "wb"]) -> BinaryIO:
    """Open a file for writing, but refuse a symbolic link, which another user may have put in its place."""

    def no_links(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    return open(path, mode, opener=no_links)


def sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's content, as 64 hexadecimal digits."""
    with reading(path), Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an error of the system inside the block into an `InputError` with `path` and the reason."""
    try:
        yield
    except OSError as error:
        advice = "name a place that exists, may be written to and has space"
        raise InputError(f"Cannot write {path} ({_reason(error, advice)}.") from error


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Do the same as `writing` for a file that is read."""
    try:
        yield
    except OSError as error:
        advice = "name a file that exists and may be read"
        raise InputError(f"Cannot read {path} ({_reason(error, advice)}.") from error


def refusal(error: OSError) -> str:
    """Describe an error of the system in one sentence.

    >>> refusal(OSError(errno.EACCES, "Permission denied", "data"))
    'Cannot use data (Permission denied); name one that exists and may be used.'
    """
    if error.filename is None:
        return f"The system refused a request ({_reason(error, 'free some resources, and repeat the command')}."
    return f"Cannot use {error.filename} ({_reason(error, 'name one that exists and may be used')}."


def _reason(error: OSError, advice: str) -> str:
    return f"{error.strerror or error}); {_ADVICE.get(error.errno or 0, advice)}"


def require_regular(path: str | os.PathLike[str]) -> int:
    """Return the size of a file in bytes; refuse devices and pipes, which may have no end."""
    with reading(path):
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path} is a device, a pipe or a socket; name a regular file.")
    return found.st_size


def content_of(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file."""
    with reading(path):
        return Path(path).read_bytes()


def read_small(path: str | os.PathLike[str]) -> bytes:
    """Read a file of settings or records; refuse one that is not regular or larger than 16 MB."""
    size = require_regular(path)
    if size > _SMALL:
        raise InputError(f"{path} has {size:,} bytes; files of this kind have no more than {_SMALL:,}.")
    with reading(path), Path(path).open("rb") as file:
        return file.read(_SMALL)


def from_json(text: str | bytes) -> Any:
    """Parse JSON; raise `ValueError` for every kind of bad text.

    >>> from_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: nested too deeply
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def from_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raise `ValueError` for every kind of bad text.

    >>> from_toml("a = " + "[" * 100_000)
    Traceback (most recent call last):
    ValueError: nested too deeply
    """
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut. Windows has no such call."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
