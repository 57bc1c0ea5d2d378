"""An edited combinator is another model."""

import importlib
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from laddernet.errors import InputError
from laddernet.network import sources
from laddernet.network.combinators import Combinator, Linear
from laddernet.network.models import find

ADDS = """from laddernet.network.combinators import Linear


class Mine(Linear):
    def __call__(self, z_tilde, u):
        return {}
"""


def test_an_edited_file_is_another_combinator_and_the_same_text_is_the_same_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(ADDS.format("z_tilde + 1.0"))
    first = find(f"{file}:Mine")
    assert find(f"{file}:Mine") is first
    file.write_text(ADDS.format("z_tilde + 2.0"))  # the same size, within the same second
    second = find(f"{file}:Mine")
    assert second.source != first.source
    for model, value in ((first, 1.0), (second, 2.0)):
        made = model.combinator(1, key=jax.random.key(0), eta=0.1)
        assert made(np.zeros((1, 1)), np.zeros((1, 1))).item() == value
    file.write_text(ADDS.format("z_tilde + 1.0"))
    assert find(f"{file}:Mine").source == first.source
    elsewhere = tmp_path / "other" / "mine.py"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(file.read_bytes())
    assert find(f"{elsewhere}:Mine").source == first.source


def test_only_built_in_combinators_have_no_source() -> None:
    assert find("vanilla").source is find(Linear).source is None


def test_a_run_finds_the_combinator_that_it_was_configured_with_or_none(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(ADDS.format("z_tilde"))
    first = find(f"{file}:Mine")
    file.write_text(ADDS.format("u"))
    assert find(first.id, first.source) is first  # loaded before the edit
    with pytest.raises(InputError, match="has changed since this run was configured; restore its source"):
        find(first.id, "of a process that had loaded another")


def package(folder: Path, name: str) -> Path:
    """A package of a combinator, a helper that it imports, and another that it does not."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").touch()
    (folder / name / "helper.py").write_text("def twice(x):\n    return 2 * x\n")
    (folder / name / "unused.py").touch()
    (folder / name / "base.py").write_text("from .helper import twice\n" + ADDS.format("twice(u)"))
    (folder / name / "mine.py").write_text(
        f"from {name}.base import Mine as Base\n" + ADDS.format("u").replace("(Linear)", "(Base)")
    )
    return folder / name


@pytest.mark.parametrize("edited", ["mine.py", "base.py", "helper.py", "unused.py"])
def test_the_source_is_the_modules_of_the_class_of_what_it_inherits_and_what_they_import(
    edited: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"own_{edited.removesuffix('.py')}"
    folder = package(tmp_path, name)
    monkeypatch.syspath_prepend(tmp_path)
    held = find(f"{name}.mine:Mine")
    (folder / edited).write_text((folder / edited).read_text() + "# edited\n")
    if edited == "unused.py":
        assert find(f"{name}.mine:Mine") is held
        return
    # Python keeps what it has imported, so the class is not the one that the files now hold.
    with pytest.raises(InputError, match=rf"{edited} has changed since Python loaded it; start Python anew"):
        find(f"{name}.mine:Mine")
    assert find(f"{name}.mine:Mine", held.source) is held
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]
    sources._LOADED.clear()  # as in a new process
    assert find(f"{name}.mine:Mine").source != held.source


def test_a_module_edited_between_its_import_and_its_first_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "edited_early.py").write_text(ADDS.format("u"))
    monkeypatch.syspath_prepend(tmp_path)
    kind = importlib.import_module("edited_early").Mine
    (tmp_path / "edited_early.py").write_text(ADDS.format("z_tilde"))
    with pytest.raises(InputError, match="has changed since Python loaded it"):
        find(kind)


def test_a_class_without_a_file_is_another_model_each_time_it_is_made() -> None:
    made = []
    for _ in range(2):
        names: dict[str, type[Combinator]] = {}
        exec(ADDS.format("u"), names)
        made.append(names["Mine"])
    first, second = (find(kind).source for kind in made)
    assert first != second
    assert find(made[0]).source == first
