import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from support import contents

from laddernet.errors import InputError
from laddernet.training.checkpoint import load, named_arrays, read_arrays, remove, save

MINE = "the fingerprint of my run"
EMPTY = {"w": jnp.zeros((2, 3)), "inner": (jnp.zeros(4), jnp.int32(0))}


def state(epoch: int) -> Any:
    return jax.tree.map(lambda leaf: leaf + epoch, EMPTY)


def history(epoch: int) -> list[dict[str, Any]]:
    return [{"epoch": n + 1, "cost": 1 / (n + 3), "validation_error": 12.5} for n in range(epoch)]


def save_epoch(folder: Path, epoch: int, fingerprint: str = MINE) -> None:
    save(folder, epoch, state(epoch), fingerprint=fingerprint, history=history(epoch))


def load_mine(folder: Path) -> tuple[int, Any, list[dict[str, Any]], list[str]]:
    return load(folder, EMPTY, fingerprint=MINE)


def assert_same(one: Any, other: Any) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert (a.shape, a.dtype, np.asarray(a).tobytes()) == (b.shape, b.dtype, np.asarray(b).tobytes())


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A folder with whole checkpoints of epochs 6 and 7."""
    save_epoch(tmp_path, 6)
    save_epoch(tmp_path, 7)
    return tmp_path


def test_the_newest_checkpoint_is_loaded_with_its_epoch_state_and_history(two: Path) -> None:
    epoch, loaded, told, refused = load_mine(two)
    assert (epoch, told, refused) == (7, history(7), [])
    assert_same(loaded, state(7))


@pytest.mark.parametrize("name", ["empty", "absent"])
def test_without_a_checkpoint_a_run_starts_from_the_template(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    assert load_mine(tmp_path / name) == (0, EMPTY, [], [])


def test_only_the_newest_two_are_kept(two: Path) -> None:
    save_epoch(two, 8)
    assert sorted(contents(two)) == [
        "epoch-000007.json",
        "epoch-000007.safetensors",
        "epoch-000008.json",
        "epoch-000008.safetensors",
    ]


def test_epochs_are_ordered_as_numbers(tmp_path: Path) -> None:
    for epoch in (9, 10, 99, 100):
        save_epoch(tmp_path, epoch)
        assert load_mine(tmp_path)[0] == epoch


DTYPES = ("float16", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32", "bool")
arrays = npst.arrays(st.sampled_from(DTYPES), npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))


@settings(max_examples=40, deadline=None)
@given(tree=st.dictionaries(st.sampled_from("abc"), arrays | st.lists(arrays, max_size=2)))
def test_arrays_of_every_type_and_shape_are_kept_bit_by_bit(tree: dict) -> None:
    tree = jax.tree.map(lambda a: a.T, tree)  # an array in memory need not be in row order
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), 1, tree, fingerprint=MINE, history=history(1))
        kept = read_arrays(Path(folder) / "epoch-000001.safetensors")
    assert_same(kept, named_arrays(tree))
    assert_same(list(named_arrays(tree).values()), jax.tree.leaves(tree))


def test_arrays_of_every_type_come_back_on_the_device_bit_by_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tree = {
        f"{dtype}{shape}": jnp.asarray(rng.integers(0, 2, shape), dtype) for dtype in DTYPES for shape in [(), (2, 3)]
    }
    save(tmp_path, 1, tree, fingerprint=MINE, history=history(1))
    loaded = load(tmp_path, jax.tree.map(np.zeros_like, tree), fingerprint=MINE)[1]
    assert {type(leaf) for leaf in jax.tree.leaves(loaded)} == {type(jnp.zeros(1))}
    assert_same(loaded, tree)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.text(st.characters(codec="utf-8")), st.floats(allow_nan=False) | st.integers()), max_size=4
    )
)
def test_a_history_comes_back_as_it_was(told: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), len(told), EMPTY, fingerprint=MINE, history=told)
        assert load_mine(Path(folder))[2] == told


# --- Unfinished, damaged, foreign -------------------------------------------------------------------------------


def test_arrays_without_their_record_were_never_finished_and_are_ignored(two: Path) -> None:
    (two / "epoch-000007.json").unlink()
    epoch, loaded, _, refused = load_mine(two)
    assert (epoch, refused) == (6, [])
    assert_same(loaded, state(6))


def test_a_file_that_was_being_written_is_ignored(two: Path) -> None:
    (two / ".epoch-000008.json.0123.tmp").write_bytes(b'{"format": ')
    assert load_mine(two)[0] == 7


def edit(path: Path, change: Callable[[dict], None]) -> None:
    record = json.loads(path.read_bytes())
    change(record)
    path.write_text(json.dumps(record))


def rewrite_arrays(folder: Path, **changes: np.ndarray | None) -> None:
    """Arrays of another network in a checkpoint that is whole."""
    tree = {**named_arrays(state(7)), **changes}
    tree = {name: array for name, array in tree.items() if array is not None}
    (folder / "epoch-000007.json").unlink()
    save(folder, 7, tree, fingerprint=MINE, history=history(7))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def of_another_run(folder: Path) -> None:
    save_epoch(folder / "other", 7, "another fingerprint")
    shutil.copytree(folder / "other", folder, dirs_exist_ok=True)
    shutil.rmtree(folder / "other")


def in_its_place(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "arrays cut short": ("is damaged", lambda f: cut(f / "epoch-000007.safetensors")),
    "record cut short": ("is damaged", lambda f: cut(f / "epoch-000007.json")),
    "arrays emptied": ("is damaged", lambda f: (f / "epoch-000007.safetensors").write_bytes(b"")),
    "record emptied": ("is damaged", lambda f: (f / "epoch-000007.json").write_bytes(b"")),
    "arrays gone": ("Cannot read", lambda f: (f / "epoch-000007.safetensors").unlink()),
    "record a folder": ("Cannot read", lambda f: in_its_place(f / "epoch-000007.json")),
    "arrays of the epoch before": (
        "is damaged",
        lambda f: shutil.copy(f / "epoch-000006.safetensors", f / "epoch-000007.safetensors"),
    ),
    "record not JSON": ("is damaged", lambda f: (f / "epoch-000007.json").write_bytes(b"\xff\x00garbage")),
    "record a number": ("is damaged", lambda f: (f / "epoch-000007.json").write_text("7")),
    "record a list": ("is damaged", lambda f: (f / "epoch-000007.json").write_text("[]")),
    "record an empty object": ("is damaged", lambda f: (f / "epoch-000007.json").write_text("{}")),
    "record with another cost": (
        "is damaged",
        lambda f: edit(f / "epoch-000007.json", lambda r: r["history"][0].update(cost=2)),
    ),
    "record without its check": (
        "is damaged",
        lambda f: edit(f / "epoch-000007.json", lambda r: r.pop("check")),
    ),
    "another format": (
        "has the format 'laddernet checkpoint 99', not 'laddernet checkpoint 2'",
        lambda f: edit(f / "epoch-000007.json", lambda r: r.update(format="laddernet checkpoint 99")),
    ),
    "another run": ("belongs to another run", of_another_run),
    "another shape": (
        r"is of another network \('w' is float32\[3, 3\], not float32\[2, 3\]\)",
        lambda f: rewrite_arrays(f, w=np.zeros((3, 3), np.float32)),
    ),
    "another type": (
        r"is of another network \('w' is float16\[2, 3\], not float32\[2, 3\]\)",
        lambda f: rewrite_arrays(f, w=np.zeros((2, 3), np.float16)),
    ),
    "one array more": (
        r"is of another network \('v' is in only one of the two\)",
        lambda f: rewrite_arrays(f, v=np.zeros(1)),
    ),
    "one array less": (
        r"is of another network \('w' is in only one of the two\)",
        lambda f: rewrite_arrays(f, w=None),
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_damaged_or_foreign_is_refused_in_a_sentence_and_the_one_before_used(two: Path, kind: str) -> None:
    sentence, damage = DAMAGE[kind]
    damage(two)
    epoch, loaded, told, refused = load_mine(two)
    assert (epoch, told) == (6, history(6))
    assert_same(loaded, state(6))
    (why,) = refused
    assert str(two / "epoch-000007") in why
    assert re.search(sentence, why)
    assert "\n" not in why


@pytest.mark.parametrize("kind", DAMAGE)
def test_if_none_is_whole_that_is_an_error_and_nothing_is_removed(two: Path, kind: str) -> None:
    sentence, damage = DAMAGE[kind]
    damage(two)
    cut(two / "epoch-000006.safetensors")
    before = contents(two)
    with pytest.raises(InputError, match=f"No checkpoint in {two} can be used: .*{sentence}.*Remove that folder"):
        load_mine(two)
    assert contents(two) == before


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_flipped_bit_of_either_file_is_ever_loaded(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save_epoch(Path(folder), 6)
        save_epoch(Path(folder), 7)
        path = Path(folder) / data.draw(st.sampled_from(["epoch-000007.json", "epoch-000007.safetensors"]))
        content = bytearray(path.read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content)
        epoch, loaded, told, refused = load_mine(Path(folder))
    if epoch == 6:
        assert len(refused) == 1
        assert_same(loaded, state(6))
    else:  # a bit that means nothing: 1e-05 and 1E-05 are the same number
        assert path.suffix == ".json"
        assert (epoch, told) == (7, history(7))


def test_a_damaged_checkpoint_does_not_count_as_one_of_the_two_that_are_kept(two: Path) -> None:
    cut(two / "epoch-000007.safetensors")
    save_epoch(two, 9)
    assert {name[:12] for name in contents(two)} == {"epoch-000006", "epoch-000009"}


def test_a_run_resumed_below_checkpoints_that_were_refused_keeps_its_own_and_theirs(two: Path) -> None:
    for epoch in (98, 99):
        save(two, epoch, state(epoch), fingerprint="another", history=history(epoch))
    save_epoch(two, 7)
    save_epoch(two, 8)
    assert {name[:12] for name in contents(two)} == {f"epoch-0000{n}" for n in ("07", "08", "98", "99")}
    epoch, _, _, refused = load_mine(two)
    assert epoch == 8
    assert len(refused) == 2


def test_a_scalar_comes_back_as_a_scalar(tmp_path: Path) -> None:
    adam_state = (jnp.ones(3), {"count": jnp.int32(5)})
    save(tmp_path, 1, adam_state, fingerprint=MINE, history=history(1))
    _, loaded, _, _ = load(tmp_path, jax.tree.map(jnp.zeros_like, adam_state), fingerprint=MINE)
    assert_same(loaded, adam_state)


# --- The end ----------------------------------------------------------------------------------------------------


def test_the_checkpoints_of_a_finished_run_go_with_their_folder(two: Path) -> None:
    folder = two / "checkpoints"
    save_epoch(folder, 1)
    remove(folder)
    assert not folder.exists()
    remove(folder)  # nor is their absence an error


def test_a_file_of_the_users_among_them_stays(two: Path) -> None:
    (two / "notes.txt").write_text("mine")
    remove(two)
    assert list(contents(two)) == ["notes.txt"]


def test_a_file_that_is_not_safetensors_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"no such thing")
    with pytest.raises(InputError, match=r"weights is not a whole safetensors file \(.*\)\.$"):
        read_arrays(tmp_path / "weights")


@pytest.mark.parametrize(
    "change",
    [{"epoch": "1"}, {"history": 0.5}, {"history": [1]}, {"history": [{"\udcff": 1}]}, {"history": [{"cost": [0.5]}]}],
)
def test_a_checkpoint_with_a_fitting_checksum_and_other_types_is_refused(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    arrays = {"a": np.zeros(2, np.float32)}
    save(tmp_path, 1, arrays, fingerprint="f", history=[{"epoch": 1}])
    path = tmp_path / "epoch-000001.json"
    record = {**json.loads(path.read_bytes()), **change}
    record.pop("check")
    record["check"] = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="No checkpoint in"):
        load(tmp_path, arrays, fingerprint="f")
    assert safetensors.numpy.load_file(tmp_path / "epoch-000001.safetensors")
