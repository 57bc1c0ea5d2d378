import hashlib
import os
import resource
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clinic import SMALL
from support import laddernet, refused

from laddernet.errors import BusyError, InputError
from laddernet.files import (
    from_json,
    from_toml,
    locked,
    open_unlinked,
    read_small,
    require_regular,
    sha256,
    write_atomic,
)


@contextmanager
def files_at_most(n_bytes: int) -> Iterator[None]:
    """The kernel refuses to let a file grow beyond `n_bytes`, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_written_file_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old and longer")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_atomic(tmp_path / "atomic", b"")
    plain, atomic = (stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("plain", "atomic"))
    assert atomic == plain


def test_a_write_that_fails_half_way_keeps_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(InputError) as error, files_at_most(1000):
        write_atomic(path, bytes(10_000))
    assert str(path) in str(error.value)
    assert "File too large" in str(error.value)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_named_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "file"
    with pytest.raises(InputError, match="No such file or directory") as error:
        write_atomic(path, b"")
    assert str(path) in str(error.value)


def test_a_folder_in_the_place_of_the_file_is_refused_and_no_temporary_file_stays(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(InputError, match="Is a directory"):
        write_atomic(tmp_path / "file", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_sha256_is_that_of_the_content(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "file").write_bytes(content)
    assert sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_sha256_of_a_file_that_is_not_there_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot read .*absent \(No such file or directory\)"):
        sha256(tmp_path / "absent")


# --- Locks ------------------------------------------------------------------------------------------------------


def test_a_lock_keeps_others_out_until_it_is_given_back(tmp_path: Path) -> None:
    first, second = (locked(tmp_path / ".lock", busy="Wait.", timeout=0) for _ in range(2))
    with first, pytest.raises(BusyError, match=r"^Wait\.$"), second:
        pytest.fail("It was locked twice.")
    with locked(tmp_path / ".lock", busy="Wait.", timeout=0):
        pass


@pytest.mark.parametrize("target", ["precious", "absent"])
def test_a_lock_does_not_follow_a_symbolic_link(tmp_path: Path, target: str) -> None:
    (tmp_path / "precious").write_text("years of work")
    (tmp_path / ".lock").symlink_to(tmp_path / target)
    with pytest.raises(InputError, match=r"\.lock is a symbolic link"), locked(tmp_path / ".lock", busy=""):
        pytest.fail("It was locked.")
    assert (tmp_path / "precious").read_text() == "years of work"
    assert not (tmp_path / "absent").exists()


def test_a_lock_does_not_make_a_folder_that_was_removed(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(InputError, match=r"\.lock \(No such file"), locked(gone / ".lock", busy=""):
        pytest.fail("It was locked.")
    assert not gone.exists()


def test_a_lock_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("years of work")
    with locked(tmp_path / ".lock", busy=""):
        pass
    assert (tmp_path / ".lock").read_text() == "years of work"


def test_a_log_is_not_written_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("years of work")
    (tmp_path / "log").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        open_unlinked(tmp_path / "log", "ab")
    assert (tmp_path / "precious").read_text() == "years of work"


# --- JSON and TOML ----------------------------------------------------------------------------------------------


def test_json_and_toml_have_one_kind_of_error() -> None:
    for text in ("[" * 10_000, "9" * 5000, '"\ud800', "{"):
        with pytest.raises(ValueError, match=r"."):
            from_json(text)
    with pytest.raises(ValueError, match="nested too deeply"):
        from_toml("a = " + "[" * 2000)


LONG = "x" * 300


def test_a_name_of_three_hundred_characters_is_one_sentence(tmp_path: Path, untrained: None) -> None:
    (tmp_path / "t.csv").write_text(SMALL)
    target = ("t.csv", "--target", "label")
    for arguments in (
        ("fit", LONG, "--target", "label"),
        ("fit", *target, "--out", LONG),
        ("fit", *target, "--also", LONG),
        ("curve", *target, "--out", f"{LONG}.svg"),
        ("predict", LONG, "t.csv"),
        ("inspect", LONG),
        ("train", "--tuned", LONG),
    ):
        done = laddernet(*arguments, cwd=tmp_path)
        refused(done, "Cannot ")
        assert done.err.endswith("(File name too long); give it a shorter name.\n")
    assert os.listdir(tmp_path) == ["t.csv"]


@pytest.mark.parametrize(
    "arguments", [("inspect",), ("predict",), ("train", "--tuned"), ("tune", "vanilla", "--space")]
)
def test_what_has_no_end_is_not_read(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    more = ("t.csv",) if arguments == ("predict",) else ()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(tmp_path / "socket"))
        for name in ("/dev/zero", "pipe", "socket"):
            done = laddernet(*arguments, name, *more, cwd=tmp_path)
            refused(done, f"{name} is a device, a pipe or a socket; name a regular file.")


def test_a_file_of_zeros_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "m").open("wb") as file:
        file.truncate(1 << 42)  # which takes no space
    with pytest.raises(InputError, match=r"m has 4,398,046,511,104 bytes; files of this kind have no more than 16,7"):
        read_small(tmp_path / "m")
    assert require_regular(tmp_path / "m") == 1 << 42
