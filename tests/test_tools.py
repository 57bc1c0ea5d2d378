"""Tools that are missing: installed, or their tests skipped; with CI=true a failure. Settings that all tests share."""

import os
import subprocess
import sys
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import tools
from threadpoolctl import threadpool_info


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is all of PATH; no C compiler is named."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def set_up(*names: str) -> None:
    sys.argv[1:] = names
    tools.main()


@pytest.fixture(autouse=True)
def _arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tools.py"])


def test_what_is_missing_and_may_not_be_installed_is_left_to_the_tests(
    nothing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up("npm", "compiler", "browser")
    assert capsys.readouterr() == ("", "")
    for name in ("npm", "compiler", "browser"):
        with pytest.raises(pytest.skip.Exception, match="is missing"):
            tools.need(name)


def test_in_ci_what_is_missing_is_a_failure(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(SystemExit, match=r"With CI=true nothing may be missing: npm \(apt-get install npm\)\."):
        set_up("npm", "venv")
    with pytest.raises(pytest.fail.Exception, match="nothing may be missing"):
        tools.need("npm")


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_root_installs_what_is_missing_and_is_told(nothing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(nothing / "apt-get", f'echo "$@" >> {nothing}/asked; echo > {nothing}/npm; /bin/chmod +x {nothing}/npm')
    set_up("npm", "venv")
    assert capsys.readouterr().out == "Installing npm for the tests: apt-get install npm\n"
    assert (nothing / "asked").read_text() == "update -qq\ninstall -qq -y --no-install-recommends npm\n"
    assert tools.need("npm") == str(nothing / "npm")


def test_an_installation_that_fails_is_told_and_stops_nothing_but_ci(
    nothing: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script(nothing / "apt-get", "echo E: no network >&2; exit 100")
    set_up("npm")
    assert capsys.readouterr().out.splitlines()[-1] == "apt-get could not install npm: E: no network"
    monkeypatch.setenv("CI", "true")
    with pytest.raises(SystemExit):
        set_up("npm")


def test_a_compiler_without_headers_is_none(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(nothing / "cc", "exit 1")
    assert not tools.compiler()
    script(nothing / "cc", "exit 0")
    assert tools.compiler()
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not tools.compiler()


@pytest.mark.process
@pytest.mark.parametrize("processes", ["0", "1"])
def test_the_last_lines_say_which_tests_were_skipped(nothing: Path, processes: str) -> None:
    (nothing / "test_it.py").write_text(
        "from tools import need\n\ndef test_1() -> None:\n    need('npm')\n\n"
        "def test_2() -> None:\n    need('compiler')\n\ndef test_3() -> None:\n    need('compiler')\n"
    )
    here = Path(__file__).parent
    (nothing / "conftest.py").write_text((here / "conftest.py").read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-n", processes, "-p", "no:cacheprovider", str(nothing)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), *sys.path])}
    done = subprocess.run(command, cwd=nothing, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-3:] == [
        done.stdout.splitlines()[-3],
        "Skipped 1 test that needs npm; to run it: apt-get install npm",
        "Skipped 2 tests that need a C compiler; to run them: apt-get install gcc libc6-dev",
    ]
    assert "3 skipped" in done.stdout.splitlines()[-3]


def test_property_tests_have_the_same_examples_in_every_run_and_no_time_limit() -> None:
    used = hypothesis.settings(max_examples=3)
    assert used.derandomize
    assert used.deadline is None
    assert hypothesis.HealthCheck.too_slow in used.suppress_health_check


def test_linear_algebra_has_one_thread_a_process() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    found = threadpool_info()
    assert "blas" in {library["user_api"] for library in found}
    assert {library["num_threads"] for library in found} == {1}
