"""The tools besides Python that tests need. As a program: install those that are missing, where that is allowed.

This runs before there is a virtual environment, so it imports nothing but the standard library.
"""

import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROBE = "#include <math.h>\ndouble probe(double x) { return sin(x); }\n"


def browser() -> tuple[str, str] | None:
    """The browser and the program that drives it."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None), shutil.which("chromedriver")
    return None if None in found else found


def postgresql() -> Path | None:
    """The folder of the server's programs."""
    on_path = shutil.which("initdb")
    found = [Path(on_path)] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if os.geteuid() == 0:  # as whom the server refuses to run; the package has made it a user of its own
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return None
    return found[-1].parent if found else None


def npm() -> str | None:
    return shutil.which("npm")


def apt() -> str | None:
    return shutil.which("apt-get")


def compiler() -> bool:
    """Whether native code can be made: a compiler without the C library's headers is of no use."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["-shared", "-fPIC", "-x", "c", "-", "-o", f"{folder}/probe.so", "-lm"]
        command = [*shlex.split(os.environ.get("CC", "cc")), *options]
        try:
            return subprocess.run(command, input=PROBE, text=True, capture_output=True).returncode == 0
        except OSError:
            return False


def clang() -> str | None:
    return shutil.which("clang")


def venv() -> bool:
    return subprocess.run([sys.executable, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0


@dataclass(frozen=True)
class Tool:
    name: str
    find: Callable[[], object]
    packages: tuple[str, ...]  # of Debian and its descendants

    @property
    def reason(self) -> str:
        return f"{self.name} is missing"

    @property
    def how(self) -> str:
        return f"apt-get install {' '.join(self.packages)}"


TOOLS = {
    tool.find.__name__: tool
    for tool in (
        Tool("a browser", browser, ("chromium", "chromium-driver")),
        Tool("PostgreSQL", postgresql, ("postgresql",)),
        Tool("npm", npm, ("npm",)),
        Tool("apt-get", apt, ("apt",)),
        Tool("a C compiler", compiler, ("gcc", "libc6-dev")),
        Tool("clang", clang, ("clang", "libc6-dev")),
        Tool("Python's venv", venv, ("python3-venv",)),
    )
}


def is_ci() -> bool:
    return os.environ.get("CI") == "true"


def install(tools: Iterable[Tool]) -> None:
    """Install tools with apt-get; what cannot be installed is said, and stays missing."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    options = ["-qq", "-y", "--no-install-recommends"]
    subprocess.run(["apt-get", "update", "-qq"], env=environment, capture_output=True)  # a failure shows below
    for tool in tools:  # one by one: a package that this system does not have keeps the others out
        print(f"Installing {tool.name} for the tests: {tool.how}", flush=True)
        done = subprocess.run(
            ["apt-get", "install", *options, *tool.packages], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            print(f"apt-get could not install {tool.name}: {said[-1] if said else done.returncode}", flush=True)


def need(name: str) -> Any:
    """Return what a test needs of a tool; skip the test where it is missing, or fail it with CI=true."""
    import pytest

    tool = TOOLS[name]
    if found := tool.find():
        return found
    if is_ci():
        pytest.fail(f"With CI=true nothing may be missing: {tool.name} ({tool.how}).")
    pytest.skip(tool.reason)


def main() -> None:
    wanted = [TOOLS[name] for name in sys.argv[1:] or TOOLS]
    missing = [tool for tool in wanted if not tool.find()]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        install(missing)
        missing = [tool for tool in missing if not tool.find()]
    if missing and is_ci():
        sys.exit("".join(f"With CI=true nothing may be missing: {tool.name} ({tool.how}).\n" for tool in missing))


if __name__ == "__main__":
    main()
