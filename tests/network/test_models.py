from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import reference
from jaxtyping import PRNGKeyArray
from ladders import DEEP, random_batch, random_ladder

from laddernet.errors import InputError
from laddernet.network.combinators import Combinator, Linear, PerUnit, RandInit
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
    with jax.enable_x64(True):
        ladder, batch = random_ladder(model, DEEP, rng), random_batch(model.id, DEEP, rng)

        def cost(ladder: Ladder) -> jax.Array:
            return forward(ladder, *batch).total

        before, gradient = jax.jit(jax.value_and_grad(cost))(ladder)
        after = jax.jit(cost)(jax.tree.map(lambda w, g: w - 1e-3 * g, ladder, gradient))
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


class Drawn(Combinator):
    w: PerUnit

    def __init__(self, units: int, *, key: PRNGKeyArray, eta: float) -> None:
        self.w = eta * jax.random.normal(key, (units,))

    def __call__(self, z_tilde: jax.Array, u: jax.Array) -> jax.Array:
        return self.w * z_tilde + u


@pytest.mark.parametrize(("kind", "matters"), [(Drawn, True), (Linear, False), (RandInit, False)])
def test_eta_matters_to_a_combinator_that_draws_with_it(kind: type[Combinator], matters: bool) -> None:
    assert find(kind).eta_matters is matters


def test_eta_matters_to_the_models_of_mlps_alone() -> None:
    for model in MODELS.values():
        made = model.combinator
        drawn = made and [made(2, key=jax.random.key(0), eta=eta) for eta in (0.1, 0.2)]
        differ = drawn and any(
            (np.asarray(a) != np.asarray(b)).any() for a, b in zip(*map(jax.tree.leaves, drawn), strict=True)
        )
        assert bool(differ) is model.eta_matters
