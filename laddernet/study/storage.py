"""Where runs on other machines keep their files: a folder that all of them see, or whatever fsspec reaches.

A run is trained in a folder of the machine that it is on, and mirrored here. Each file arrives whole, and the files in
an order in which a mirror that breaks off is never taken for more than it is: what a run is asked first, arrays before
the record that vouches for them, the result last.
"""

import os
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from laddernet.errors import InputError
from laddernet.files import write_atomic
from laddernet.study.addresses import shown, shown_all

_MARK = ".laddernet-storage"  # by what it holds, a machine knows that it sees the same storage as another
_TRIES = 5


class Storage:
    """A place for the files of runs, by folder or by URL.

    >>> import tempfile
    >>> storage = Storage(tempfile.mkdtemp())
    >>> storage.write("runs/a/config.json", b"{}")
    >>> storage.names("runs/a"), storage.read("runs/a/config.json")
    (['config.json'], b'{}')
    """

    def __init__(self, where: str | os.PathLike[str]) -> None:
        try:
            from fsspec.core import url_to_fs
            from fsspec.implementations.local import LocalFileSystem
        except ImportError as error:
            raise InputError(
                f"Storage needs fsspec ({error}); install it with pip install 'laddernet[ray]'."
            ) from error
        self.name = shown(str(where))
        try:
            self._files, root = url_to_fs(str(where))
        except (ImportError, ValueError) as error:  # a package that this protocol needs, or no such protocol
            advice = "name a folder, or install what fsspec needs for this address"
            raise InputError(f"Cannot use the storage {self.name} ({_line(error, str(where))}); {advice}.") from error
        self._root = str(root).rstrip("/")
        self.folder = Path(self._root) if isinstance(self._files, LocalFileSystem) else None
        self.url = str(self.folder or where)  # what names it on another machine too

    def identity(self) -> str:
        """What only this storage holds; written when it is first asked for, so this tells that one can write."""
        try:
            found = self.look()
            if found is None:
                self.write(_MARK, uuid.uuid4().hex.encode())
                found = self.look()
        except Exception as error:  # fsspec's packages have no exception in common
            advice = "name a folder or address that exists, may be written to and has space"
            raise InputError(f"Cannot use the storage {self.name} ({_line(error, self.url)}); {advice}.") from error
        return found or ""

    def look(self) -> str | None:
        """The same, where it has been written."""
        return self.read(_MARK).decode() if self._files.exists(f"{self._root}/{_MARK}") else None

    def names(self, folder: str) -> list[str]:
        """The files below a folder, as paths in it; not those that begin with a dot, which are not meant to stay."""
        return sorted((str(path) for path in self._below(folder) if not path.name.startswith(".")), key=_order)

    def keep_only(self, folder: str, names: Collection[str]) -> None:
        """Remove from a folder all other files, also what was half written when its writer was killed."""
        for path in self._below(folder):
            if str(path) not in names:
                self.remove(f"{folder}/{path}")
        if self.folder is not None:
            for below in (self.folder / folder).glob("*/"):
                with suppress(OSError):  # it holds files
                    below.rmdir()

    def _below(self, folder: str) -> list[PurePosixPath]:
        self._files.invalidate_cache()
        above = PurePosixPath(self._root, folder)
        return [PurePosixPath(found).relative_to(above) for found in self._files.find(str(above))]

    def read(self, name: str) -> bytes:
        content: bytes = self._files.cat_file(f"{self._root}/{name}")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Put a file there, whole or not at all."""
        path = f"{self._root}/{name}"
        self._files.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
        if self.folder is not None:  # fsspec would move it here from another disk, which is not done at once
            write_atomic(path, content)
            return
        with self._files.transaction, self._files.open(path, "wb") as file:
            file.write(content)

    def remove(self, name: str) -> None:
        path = f"{self._root}/{name}"
        if self._files.exists(path):
            self._files.rm_file(path)
        if self.folder is not None:
            with suppress(OSError):  # it holds other files
                Path(path).parent.rmdir()


class Mirror:
    """A run's folder on this machine, and the same in a storage."""

    def __init__(self, storage: Storage, name: str, folder: Path) -> None:
        self._storage = storage
        self._name = name
        self._folder = folder
        self._same: dict[str, Any] = {}  # by file, how it looked here when both were the same

    def pull(self) -> None:
        """Bring here what is there."""
        for left in reversed(range(_TRIES)):
            try:
                for name in self._storage.names(self._name):
                    path = self._folder / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_atomic(path, self._storage.read(f"{self._name}/{name}"))
                    self._same[name] = _look(path)
                return
            except FileNotFoundError:  # an earlier attempt, not yet dead, has put a newer checkpoint in its place
                if not left:
                    raise

    def finish(self) -> None:
        """Bring there what is new here, and leave there nothing else: an earlier attempt may have sent more."""
        self._send(lambda name: True)
        self._storage.keep_only(self._name, self._same.keys())

    def push(self) -> None:
        """Bring there what is new here, and remove there what this mirror knows of and is no longer here.

        Another attempt may have finished the run, while this one's machine was suspended: then nothing is sent. The
        metrics, which grow from epoch to epoch under one name, are left to the end, for else an attempt that was
        suspended right here would put its own over those of the finished run. Checkpoints hold them too.
        """
        if "result.json" not in self._storage.names(self._name):
            self._send(lambda name: name != "metrics.csv")

    def _send(self, is_wanted: Callable[[str], bool]) -> None:
        paths = [path for path in self._folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        here = {path.relative_to(self._folder).as_posix(): path for path in paths}
        for name in sorted(here, key=_order):
            look = _look(here[name])
            if is_wanted(name) and self._same.get(name) != look:
                self._storage.write(f"{self._name}/{name}", here[name].read_bytes())
                self._same[name] = look
        for name in sorted(self._same.keys() - here.keys(), key=_order, reverse=True):
            self._storage.remove(f"{self._name}/{name}")
            del self._same[name]


def _order(name: str) -> tuple[int, str]:
    if name == "config.json":
        return 0, name
    if name == "result.json":
        return 3, name
    return (2 if name.endswith(".json") else 1), name


def _look(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _line(error: Exception, where: str) -> str:
    return shown_all(str(error).replace(where, shown(where))) or type(error).__name__
