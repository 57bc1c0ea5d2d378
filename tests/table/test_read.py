import os
import socket
from pathlib import Path

import pytest

from laddernet.errors import InputError
from laddernet.table.read import open_table


def test_a_parquet_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("a,label\n1,x\n")
    with pytest.raises(InputError, match=r"t\.parquet is not a Parquet file; write it anew, or give it another name"):
        open_table(tmp_path / "t.parquet")


def test_a_named_pipe_is_refused_for_it_can_be_read_only_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe can be read only once; give a file, or '-' for standard input\.$"):
        open_table(tmp_path / "pipe")


def test_a_table_that_is_a_socket_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(tmp_path / "socket"))
        with pytest.raises(InputError, match=r"socket is a device, a pipe or a socket; name a regular file\.$"):
            open_table(tmp_path / "socket")
