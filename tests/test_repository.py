"""The files at the root agree with each other, public names are documented, and a wheel has all the files it needs."""

import inspect
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import laddernet
from laddernet.errors import _EXTRAS

ROOT = Path(__file__).parent.parent


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]


def found_in(document: str, pattern: str) -> list[str]:
    return re.findall(pattern, (ROOT / document).read_text(encoding="utf-8"), re.MULTILINE)


def test_pre_commit_and_ci_have_the_same_ruff() -> None:
    (pinned,) = (name for name in project()["optional-dependencies"]["dev"] if name.startswith("ruff"))
    assert re.fullmatch(r"ruff==[\d.]+", pinned)
    hooks = found_in(".pre-commit-config.yaml", r"^ *additional_dependencies: \[(.*)\]$")
    assert hooks == [pinned, pinned]  # check and format


def test_the_citation_is_of_this_version() -> None:
    assert found_in("CITATION.cff", r"^version: (.+)$") == [project()["version"]]


def test_the_newest_version_of_the_changelog_is_this_one() -> None:
    unreleased, newest, *_ = found_in("CHANGELOG.md", r"^## \[(.+?)\]")
    assert unreleased == "Unreleased"
    assert newest == project()["version"]


def test_the_message_about_a_missing_package_names_the_extra_that_has_it() -> None:
    dependencies = project()["dependencies"]
    extras = project()["optional-dependencies"]
    for package, extra in _EXTRAS.items():
        distribution = package.replace("_", "-")
        assert not any(re.match(rf"{distribution}\b", name) for name in dependencies), package
        assert package == "jaxlib" or any(re.match(rf"{distribution}\b", name) for name in extras[extra]), package
    listed = {
        re.match(r"[\w-]+", name)[0].replace("-", "_")  # type: ignore[index]
        for extra in set(_EXTRAS.values())
        for name in extras[extra]
    }
    assert listed - {"laddernet"} == _EXTRAS.keys() - {"jaxlib"}


# --- Docstrings -------------------------------------------------------------------------------------------------------


def documented(name: str) -> Iterator[tuple[str, Any]]:
    """Yield a public function, or a public class and its public methods that laddernet defines."""
    found = getattr(laddernet, name)
    if isinstance(found, type) and issubclass(found, Exception):
        return  # their parameters are those of Exception
    if isinstance(found, type) and found.__module__.startswith("laddernet."):
        yield name, found
        # scikit-learn's available_if makes the method when it is looked up, so that vars(found) does not have it.
        for method, function in inspect.getmembers(found, inspect.isroutine):
            if not method.startswith("_") and str(getattr(function, "__module__", "")).startswith("laddernet."):
                yield f"{name}.{method}", function
    elif isinstance(found, FunctionType):
        yield name, found


def sections(docstring: str) -> dict[str, str]:
    parts = re.split(r"^(\w[\w ]*)\n-+\n", docstring, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def named_in(section: str) -> set[str]:
    """Return the names in a section: of "low, high : float", low and high."""
    heads = [line.split(" : ")[0] for line in section.splitlines() if re.match(r"\S", line)]
    return {name.strip("* ") for head in heads for name in head.split(",")}


def test_the_public_functions_and_methods_are_found() -> None:
    found = {name for public in laddernet.__all__ for name, _ in documented(public)}
    assert {"LabelledOnly.predict", "LadderClassifier.fit", "Sampler.of", "TableModel.parts", "train"} < found


@pytest.mark.parametrize("public", laddernet.__all__)
def test_public_docstrings_name_exactly_the_parameters_and_have_what_is_returned(public: str) -> None:
    for name, found in documented(public):
        signature = inspect.signature(found)
        docstring = sections(inspect.getdoc(found) or "")
        fields = docstring.get("Attributes", "") if isinstance(found, type) else ""
        parameters = set(signature.parameters) - {"self"}
        assert named_in(docstring.get("Parameters", fields)) == parameters, name
        if not isinstance(found, type) and signature.return_annotation not in (None, "None"):
            assert docstring.keys() & {"Returns", "Yields"}, name


# --- The wheel --------------------------------------------------------------------------------------------------------


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Return what a program printed that ended with exit code 0."""
    done = subprocess.run(command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tracked_files() -> list[str]:
    # A clone may belong to another user than the one who tests it, as in a container.
    names = run("git", "-c", "safe.directory=*", "ls-files", "-z", cwd=ROOT).split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from a copy of the files that git tracks."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in tracked_files():
        copy = folder / "source" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", folder / "source"]
    run(*build, cwd=folder)
    (built,) = (folder / "dist").iterdir()
    return built


@pytest.mark.process
def test_a_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    packed = zipfile.ZipFile(wheel).namelist()
    metadata = f"laddernet-{project()['version']}.dist-info/"
    assert sorted(name for name in packed if not name.startswith(metadata)) == sorted(
        name for name in tracked_files() if name.startswith("laddernet/")
    )


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the wheel is installed, without its dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-compile"]
    run(sys.executable, "-m", "pip", "install", *options, "--target", folder, wheel, cwd=folder)
    return folder


def python(installed: Path, *arguments: str, cwd: Path) -> str:
    """Run Python with the wheel and its dependencies, and with no path to the repository's package.

    Without the module `site` nothing adds the path of an editable install.
    """
    dependencies = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    path = os.pathsep.join([str(installed), *dependencies])
    return run(sys.executable, "-S", *arguments, cwd=cwd, PYTHONPATH=path)


@pytest.mark.process
def test_a_wheel_works_without_the_repository(installed: Path, tmp_path: Path) -> None:
    show = "import sys, laddernet; print(laddernet.__file__, *sys.path, sep='\\n')"
    file, *path = python(installed, "-c", show, cwd=tmp_path).splitlines()
    assert Path(file).is_relative_to(installed)
    assert ROOT not in map(Path, path)

    assert "vanilla" in python(installed, "-m", "laddernet", "models", cwd=tmp_path)

    lines = [f"{i % 2 + i / 100},{i % 7},{'ab'[i % 2] if i < 20 else ''}" for i in range(60)]
    (tmp_path / "data.csv").write_text("\n".join(["x,z,label", *lines, ""]))
    options = ["--target", "label", "--hidden", "4", "--networks", "1", "--max-steps", "5", "--no-estimate"]
    python(installed, "-m", "laddernet", "fit", "data.csv", *options, cwd=tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["data.csv", "data.safetensors"]
