"""Files of runs in a storage: mirrors that break off, and attempts that overlap."""

import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from support import contents, tiny_config, tiny_data

from laddernet.data import TrainingData
from laddernet.errors import InputError
from laddernet.study.storage import Mirror, Storage
from laddernet.training import checkpoint
from laddernet.training.config import Config
from laddernet.training.run import run


@pytest.fixture(params=["folder", "simulated object store"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return Storage(tmp_path / "storage" if request.param == "folder" else f"memory://{uuid4().hex}/deep")


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_mirror_brings_what_is_new_and_removes_what_is_gone(storage: Storage, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    write(here, config_json="{}", checkpoints__a_json="a", checkpoints__a_safetensors="arrays", _tmp="half")
    mirror = Mirror(storage, "runs/one", here)
    mirror.push()
    assert storage.names("runs/one") == ["config.json", "checkpoints/a.safetensors", "checkpoints/a.json"]
    shutil.rmtree(here / "checkpoints")
    write(here, config_json="{}", checkpoints__b_json="b", result_json="result")
    mirror.push()
    Mirror(storage, "runs/one", there).pull()
    assert contents(there) == {"config.json": b"{}", "checkpoints/b.json": b"b", "result.json": b"result"}
    assert storage.names("runs/other") == []


def test_a_mirror_leaves_alone_what_another_attempt_has_put_there_until_it_is_finished(
    storage: Storage, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write(one, config_json="{}", checkpoints__a_json="a")
    write(other, config_json="{}", checkpoints__b_json="b")
    mirrors = [Mirror(storage, "run", folder) for folder in (one, other)]
    for mirror in mirrors:
        mirror.push()
    shutil.rmtree(one / "checkpoints")
    mirrors[0].push()
    assert storage.names("run") == ["config.json", "checkpoints/b.json"]
    storage.write("run/checkpoints/.b.json.tmp", b"half")  # as one that is killed leaves it
    if storage.folder is not None:
        (storage.folder / "run" / "empty").mkdir()
    write(one, result_json="{}")
    mirrors[0].finish()
    assert storage.names("run") == ["config.json", "result.json"]
    if storage.folder is not None:
        assert sorted(path.name for path in (storage.folder / "run").iterdir()) == ["config.json", "result.json"]


def test_an_attempt_that_was_suspended_changes_nothing_in_a_run_that_another_has_finished(
    storage: Storage, tmp_path: Path
) -> None:
    stale, other = tmp_path / "stale", tmp_path / "other"
    write(stale, config_json="{}", metrics_csv="epoch 1", checkpoints__a_json="a")
    suspended = Mirror(storage, "run", stale)
    suspended.push()
    write(other, config_json="{}", metrics_csv="epochs 1 to 9", weights_safetensors="weights", result_json="{}")
    Mirror(storage, "run", other).finish()
    write(stale, metrics_csv="epochs 1 and 2", checkpoints__b_json="b")
    suspended.push()
    assert storage.names("run") == ["config.json", "metrics.csv", "weights.safetensors", "result.json"]
    assert storage.read("run/metrics.csv") == b"epochs 1 to 9"


def test_no_moment_of_a_suspension_puts_old_metrics_over_those_of_a_finished_run(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale, other = tmp_path / "stale", tmp_path / "other"
    write(stale, config_json="{}", metrics_csv="epoch 1", checkpoints__a_json="a")
    write(other, config_json="{}", metrics_csv="epochs 1 to 9", result_json="{}")
    names = storage.names

    def suspended_after_the_look(folder: str) -> list[str]:
        found = names(folder)
        monkeypatch.setattr(storage, "names", names)
        Mirror(storage, "run", other).finish()
        return found

    monkeypatch.setattr(storage, "names", suspended_after_the_look)
    Mirror(storage, "run", stale).push()
    assert storage.read("run/metrics.csv") == b"epochs 1 to 9"


class Killed(BaseException):
    pass


class Breaking(Storage):
    """A storage whose user is killed at its nth change."""

    def __init__(self, storage: Storage, left: int) -> None:
        self.__dict__.update(vars(storage))
        self.left = left

    def change(self, how: Callable[..., None], *arguments: object) -> None:
        if not self.left:
            raise Killed
        self.left -= 1
        how(*arguments)

    def write(self, name: str, content: bytes) -> None:
        self.change(super().write, name, content)

    def remove(self, name: str) -> None:
        self.change(super().remove, name)


def train(storage: Storage, scratch: Path, config: Config, data: TrainingData) -> dict[str, bytes]:
    """What a worker does with a run; returns the weights and the result that are in the storage after it."""
    mirror = Mirror(storage, "run", scratch)
    mirror.pull()
    run(
        config,
        data,
        (data.x_labelled, data.y_labelled),
        scratch,
        command=["x"],
        checkpoint_every=0,
        on_checkpoint=mirror.push,
    )
    mirror.finish()
    return {name: storage.read(f"run/{name}") for name in storage.names("run")}


def test_wherever_a_worker_is_killed_the_next_one_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config(epochs=2)
    data = tiny_data(config)
    monkeypatch.setattr("time.monotonic", lambda: 0.0)  # the result holds how long it took
    monkeypatch.setattr("laddernet.training.run.environment", dict)
    undisturbed = train(Storage("memory://undisturbed"), tmp_path / "undisturbed", config, data)
    assert set(undisturbed) == {
        *("config.json", "command.txt", "environment.json", "metrics.csv", "weights.safetensors", "result.json")
    }
    for kill in range(1, 100, 3):
        storage = Storage(f"memory://killed-at-{kill}")
        try:
            train(Breaking(storage, kill), tmp_path / f"a{kill}", config, data)
        except Killed:
            assert train(storage, tmp_path / f"b{kill}", config, data) == undisturbed
        else:
            assert kill > 12
            return
    pytest.fail("It never came to the end.")


def test_a_finished_run_is_only_read(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config(epochs=1)
    data = tiny_data(config)
    done = train(storage, tmp_path / "one", config, data)
    monkeypatch.setattr("laddernet.training.run.train", None)
    monkeypatch.setattr(checkpoint, "save", None)
    assert train(storage, tmp_path / "other", config, data) == done


def test_a_checkpoint_that_vanishes_while_it_is_read_is_no_harm(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "storage")
    Mirror(storage, "run", tmp_path / "none").push()
    storage.write("run/config.json", b"{}")
    storage.write("run/checkpoints/epoch-1.safetensors", b"1")
    names = storage.names

    def names_and_then_newer(folder: str) -> list[str]:
        found = names(folder)
        (tmp_path / "storage" / "run" / "checkpoints" / "epoch-1.safetensors").unlink(missing_ok=True)
        storage.write("run/checkpoints/epoch-2.safetensors", b"2")
        return found

    storage.names = names_and_then_newer  # type: ignore[method-assign]
    Mirror(storage, "run", tmp_path / "here").pull()
    assert (tmp_path / "here" / "checkpoints" / "epoch-2.safetensors").read_bytes() == b"2"


def test_a_storage_keeps_its_identity(storage: Storage) -> None:
    assert storage.look() is None
    assert storage.identity() == storage.identity() == storage.look() != ""


def test_a_storage_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"Cannot use the storage nosuch://x \(Protocol not known: nosuch\)"):
        Storage("nosuch://x")
    with pytest.raises(InputError, match=r"Cannot use the storage .*file \("):
        Storage(tmp_path / "file").identity()


def test_an_error_does_not_show_the_address_of_its_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage("memory://me:ge heim@host/x?sig=geheim")

    def refuse(*arguments: object) -> None:
        raise OSError("403 for memory://me:ge heim@host/x?sig=geheim/mark, or https://h/x?sig=geheim")

    monkeypatch.setattr(storage, "write", refuse)
    with pytest.raises(InputError) as error:
        storage.identity()
    assert "heim" not in str(error.value)
    assert "(403 for memory://…@host/x?… or https://h/x?…); " in str(error.value)
