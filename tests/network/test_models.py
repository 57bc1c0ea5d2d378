import importlib
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import reference
from test_ladder import DEEP, random_batch, random_ladder

from laddernet.errors import InputError
from laddernet.network import sources
from laddernet.network.combinators import Combinator, Linear
from laddernet.network.ladder import Ladder, forward
from laddernet.network.models import MODELS, find

GATE = '''
import jax

from laddernet.network.combinators import Combinator, PerUnit, initially


class Gate(Combinator):
    """A constant gate between the two."""

    w: PerUnit = initially(0.0)

    def __call__(self, z_tilde, u):
        gate = jax.nn.sigmoid(self.w)
        return gate * z_tilde + (1 - gate) * u


not_a_class = 3
'''


@pytest.fixture
def gate_file(tmp_path: Path) -> Path:
    path = tmp_path / "gate.py"
    path.write_text(GATE)
    return path


def test_the_models_are_the_twenty_of_the_specification() -> None:
    assert len(MODELS) == 20
    assert set(MODELS) == set(reference.MODEL_IDS)
    assert all(model.id == id for id, model in MODELS.items())


def test_no_two_models_have_the_same_name_in_the_paper() -> None:
    assert len({model.paper_name for model in MODELS.values()}) == 20


@pytest.mark.parametrize("id", reference.MODEL_IDS)
def test_find_takes_an_id_or_a_model(id: str) -> None:
    assert find(id) is MODELS[id]
    assert find(MODELS[id]) is MODELS[id]


@pytest.mark.parametrize("how", [Linear, "laddernet.network.combinators:Linear"])
def test_find_puts_a_combinator_in_vanillas_place(how: str | type[Combinator]) -> None:
    model = find(how)
    assert model.combinator is Linear
    assert model.id == "laddernet.network.combinators:Linear"
    assert model.noise == model.reconstruction == "everywhere"


def test_find_takes_a_class_from_a_file(gate_file: Path) -> None:
    model = find(f"{gate_file}:Gate")
    assert isinstance(model.combinator, type)
    assert issubclass(model.combinator, Combinator)
    assert (model.id, model.paper_name) == (f"{gate_file}:Gate", "Gate")
    assert model.description == "A constant gate between the two."


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("vanila", "vanilla"), ("Linear", "linear"), ("mlp-2-2-3", "mlp-2-2-2"), ("gatedgauss", "gated-gauss")],
)
def test_an_unknown_id_is_answered_with_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(InputError, match=f"no model '{wrong}'; did you mean '{right}'"):
        find(wrong)


def test_an_id_near_to_none_is_answered_without_a_guess() -> None:
    with pytest.raises(InputError, match="no model 'qqqq'; `laddernet models` lists") as error:
        find("qqqq")
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize(
    "wrong", [int, "collections:OrderedDict", "laddernet.network.combinators:initially", "{gate_file}:not_a_class"]
)
def test_what_is_not_a_combinator_is_refused(wrong: str | type, gate_file: Path) -> None:
    if isinstance(wrong, str):
        wrong = wrong.format(gate_file=gate_file)
    with pytest.raises(InputError, match="is not a combinator"):
        find(wrong)


@pytest.mark.parametrize(
    "absent",
    ["no_such_module:Gate", "laddernet.network.combinators:Gate", "{gate_file}:Absent", "no/such/file.py:Gate"],
)
def test_a_combinator_that_is_not_there_is_named_in_the_error(absent: str, gate_file: Path) -> None:
    absent = absent.format(gate_file=gate_file)
    with pytest.raises(InputError) as error:
        find(absent)
    assert f"Cannot take the combinator {absent!r}" in str(error.value)


def test_a_gradient_step_with_a_users_combinator_lowers_the_cost(gate_file: Path) -> None:
    model = find(f"{gate_file}:Gate")
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):  # as the tests of the ladder: the same compiled operations
        ladder, batch = random_ladder(model, DEEP, rng), random_batch(model.id, DEEP, rng)

        def cost(ladder: Ladder) -> jax.Array:
            return forward(ladder, *batch).total

        before, gradient = jax.value_and_grad(cost)(ladder)
        after = cost(jax.tree.map(lambda w, g: w - 1e-3 * g, ladder, gradient))
    assert all((np.asarray(layer.combinator.w) != 0).all() for layer in gradient.decoder)
    assert float(after) < float(before)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("laddernet.network.combinators:Combinator", "abstract"),
        ("laddernet.network.combinators:MLP", "hidden"),
        (":Gate", "Empty module name"),
        (".relative:Gate", "package"),
    ],
)
def test_a_combinator_that_cannot_work_is_refused_with_the_reason(broken: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        find(broken)


def test_a_combinator_that_returns_another_shape_is_refused() -> None:
    class Sum(Combinator):
        def __call__(self, z_tilde: jax.Array, u: jax.Array) -> jax.Array:
            return (z_tilde + u).sum()

    with pytest.raises(InputError, match="must return one array of the shape"):
        find(Sum)


def test_an_error_in_the_users_file_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("class Gate(\n")
    with pytest.raises(InputError, match="SyntaxError") as error:
        find(f"{file}:Gate")
    assert "\n" not in str(error.value)


def test_a_class_that_no_import_can_find_is_found_again_by_its_id() -> None:
    class Local(Combinator):
        def __call__(self, z_tilde: jax.Array, u: jax.Array) -> jax.Array:
            return z_tilde + u

    assert find(find(Local).id).combinator is Local


def test_a_model_reconstructs_if_and_only_if_it_has_a_combinator() -> None:
    for changed in ({"reconstruction": "nowhere"}, {"combinator": None}):
        with pytest.raises(InputError, match="without one it must be nowhere, with one somewhere"):
            replace(find("vanilla"), **changed)


# --- A combinator that is edited --------------------------------------------------------------------------------------

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
