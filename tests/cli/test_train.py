import json
import os
import pty
import re
import threading
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from rich.console import Console
from support import OPTIONS, Finished, call_main, digits, laddernet, tiny_config

from laddernet.data import load
from laddernet.training.run import default_folder


def test_help_names_every_option_of_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = laddernet("train", "--help", cwd=tmp_path).out
    options = "data labels model seed epochs noise recon-weights hidden out eta learning-rate batch-size json"
    assert [name for name in options.split() if f"--{name}" not in out] == []


def test_train_as_json_prints_one_object_and_nothing_else(finished: tuple[Path, Finished]) -> None:
    folder, done = finished
    assert (done.code, done.err, done.out.count("\n")) == (0, "", 1)
    result = json.loads(done.out)
    assert result == {"folder": "run", **json.loads((folder / "result.json").read_text())}
    assert 0 <= result["test_error"] <= 100
    assert result["epoch"] == 4


def test_train_ends_with_the_test_error_on_a_line_however_long_the_folders_name(
    finished: tuple[Path, Finished],
) -> None:
    folder, done = finished
    error = json.loads(done.out)["test_error"]
    plain = laddernet("train", *OPTIONS, "--out", folder, cwd=folder.parent)
    assert plain == (0, f"test error {error:.2f} %   ({folder})\n", "")


@pytest.mark.process
def test_a_terminal_shows_epoch_cost_validation_error_speed_and_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("laddernet.cli.train.err", Console(stderr=True, width=80))
    ours, theirs = pty.openpty()
    shown = bytearray()

    def watch() -> None:
        while True:
            try:
                shown.extend(os.read(ours, 1 << 16))
            except OSError:  # the other end is closed
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    with open(theirs, "w", encoding="utf-8") as terminal, redirect_stderr(terminal):
        code = call_main("train", *OPTIONS, "--seed", "5", "--out", "run", cwd=tmp_path)
    watcher.join()
    os.close(ours)
    assert code == 0
    assert capsys.readouterr().out.startswith("test error ")
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()))
    full = r"epoch 4/4 .*cost \d+\.\d{3}  validation \d+\.\d\d %  [\d,]+ steps/s left \d:\d\d:\d\d$"
    assert any(re.match(full, line) for line in lines), lines
    assert max(map(len, lines)) <= 80


def test_a_combinator_of_the_users_own_is_trained_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from laddernet import Combinator, PerUnit, initially\n"
        "class Mix(Combinator):\n"
        "    w: PerUnit = initially(0.5)\n"
        "    def __call__(self, z_tilde, u):\n"
        "        return self.w * z_tilde + (1 - self.w) * u\n"
    )
    done = laddernet("train", *OPTIONS, "--model", "mine.py:Mix", cwd=tmp_path)
    folder = default_folder(tiny_config(model=f"{tmp_path}/mine.py:Mix")).name.rpartition("-")[0]
    (made,) = (tmp_path / "runs").iterdir()
    assert done.code == 0
    assert re.fullmatch(rf"test error [\d.]+ %   \(runs/{made.name}\)\n", done.out)
    assert made.name.rpartition("-")[0] == folder == "digits-40-Mix-seed0"
    assert json.loads((made / "config.json").read_text())["model"] == "mine.py:Mix"


def test_a_run_that_diverges_says_where_in_a_line_and_ends_with_1(tmp_path: Path) -> None:
    done = laddernet("train", *OPTIONS, "--recon-weights", "3e38", "--out", "run", cwd=tmp_path)
    advice = "a smaller learning rate, less noise or smaller reconstruction weights would keep it finite"
    assert done == (1, "", f"laddernet: In epoch 1, step 1, cost became inf; {advice}.\n")


BAD = {
    "--model vanila": "There is no model 'vanila'; did you mean 'vanilla'? `laddernet models` lists them all.",
    "--model amlp-2-2-3": "There is no model 'amlp-2-2-3'; did you mean 'amlp-2-2-2'? ",
    "--model absent.py:Mix": "Cannot take the combinator 'absent.py:Mix' (",
    "--data mnits": "There is no data set 'mnits'; perhaps mnist was meant; the known ones are digits, mnist and ",
    "--data cifar10": "There is no data set 'cifar10'; the known ones are digits, mnist and fashion-mnist.",
    "--labels 1438": "1438 labels are more than the 1437 training rows; ask for at most 1437.",
    "--labels 5": "5 labels are too few for 10 classes; give each at least one.",
    "--labels some": "--labels has 'some' where a whole number should be.",
    "--labels 1.5": "--labels has '1.5' where a whole number should be.",
    "--validation 1437": "100 labels and 1437 validation rows are more than the 1437 training rows; ",
    "--recon-weights 1,2": "recon_weights has 2 values; give 1, 3 or 5 (layers 0 to 4).",
    "--recon-weights -1": "recon_weights must be finite numbers of 0 or more, got [-1.0].",
    "--recon-weights 1,nan,1": "recon_weights must be finite numbers of 0 or more, got [1.0, nan, 1.0].",
    "--recon-weights a": "--recon-weights must be numbers separated by commas, as in 0.3,0.2, got 'a'.",
    "--noise 0.1,0.2,0.3": "noise has 3 values; give 1, 2 or 5 (layers 0 to 4).",
    "--noise -0.1": "noise must be finite numbers of 0 or more, got [-0.1].",
    "--noise inf": "noise must be finite numbers of 0 or more, got [inf].",
    "--noise 0.3,": "--noise must be numbers separated by commas, as in 0.3,0.2, got '0.3,'.",
    "--hidden 0": "hidden must be one or more positive integers, got (0,).",
    "--hidden 10,-5": "hidden must be one or more positive integers, got (10, -5).",
    "--hidden ''": "--hidden has '' where a whole number should be.",
    "--hidden 10;5": "--hidden has '10;5' where a whole number should be.",
    "--epochs 0": "epochs must be an integer from 1 to 1000000, got 0.",
    "--epochs 3 --decay-epochs 4": "decay_epochs must be an integer from 0 to 3, got 4.",
    "--seed -1": "seed must be an integer from 0 to 4294967295, got -1.",
    "--batch-size 0": "batch_size must be an integer from 1 to 1000000, got 0.",
    "--labelled-batch-size 0": "labelled_batch_size must be an integer from 1 to 1000000, got 0.",
    "--learning-rate 0": "learning_rate must be a finite number above 0, got 0.0.",
    "--eta nan": "eta must be a finite number above 0, got nan.",
    "--copies 1000000000": "copies must be an integer from 1 to 1000, got 1000000000.",
    "--checkpoint-every inf": "--checkpoint-every must be a finite number of 0 or more, got inf.",
}


@pytest.mark.parametrize("options", BAD)
def test_bad_input_is_one_line_and_ends_with_2_and_makes_no_folder(
    tmp_path: Path, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laddernet.data.load", lambda name: digits() if name == "digits" else load(name))
    done = laddernet("train", *(option.strip("'") for option in options.split(" ")), cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"laddernet: {BAD[options]}")
    assert done.err.endswith((".\n", "?\n"))
    assert done.err.count("\n") == 1
    assert os.listdir(tmp_path) == []
