import json
import os
import pty
import re
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from support import OPTIONS, PATIENCE, Finished, call_main, digits, laddernet, tiny_config

from laddernet.cli.options import stoppable
from laddernet.data import load
from laddernet.network.models import MODELS
from laddernet.training.run import default_folder

WIDE = {**os.environ, "COLUMNS": "300"}

# --- models, data -----------------------------------------------------------------------------------------------


def test_models_shows_every_id_with_its_description_and_number_of_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laddernet.cli.train.out", Console(width=200))
    done = laddernet("models", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    lines = {line.strip(" │├└─").split("  ")[0]: line for line in done.out.splitlines()}
    for model in MODELS.values():
        assert model.description in lines[model.id]
    assert "[u, z̃, u⊙z̃]" in lines["amlp-4"]
    assert lines["baseline"].rstrip().endswith("1,541,020")
    assert {"Vanilla", "Baseline models", "Removal of a component", "Replacement of a component"} <= lines.keys()


def test_models_fits_a_narrow_terminal_without_losing_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.cli.train.out", Console(width=60))
    out = laddernet("models", cwd=tmp_path).out
    assert max(map(cell_len, out.splitlines())) <= 60
    words = set(re.sub("[│├└─]", " ", out).split())
    assert all(set(f"{model.id} {model.description}".split()) <= words for model in MODELS.values())


def test_models_as_json_are_twenty_objects_with_the_parameters_of_the_papers_network(tmp_path: Path) -> None:
    done = laddernet("models", "--json", cwd=tmp_path)
    models = {model["id"]: model for model in json.loads(done.out)}
    assert (done.code, done.err, len(models)) == (0, "", 20)
    assert list(models) == list(MODELS)
    assert all(isinstance(model["parameters"], int) for model in models.values())
    assert all(model["paper_name"] and model["description"] for model in models.values())
    assert models["amlp-2-2-2"]["paper_name"] == "AMLP [2,2,2]"
    # By hand, for 784-1000-500-250-250-250-10: weights up, γ and β; then weights down, and per unit 9 or 23.
    weights = 784 * 1000 + 1000 * 500 + 500 * 250 + 250 * 250 + 250 * 250 + 250 * 10
    above_input = 1000 + 500 + 250 + 250 + 250 + 10
    baseline = weights + 2 * above_input
    assert models["baseline"]["parameters"] == baseline
    assert models["vanilla"]["parameters"] == baseline + weights + 9 * (784 + above_input)
    per_unit = (3 * 2 + 2) + (2 * 2 + 2) + (2 * 2 + 2) + (2 + 1)
    assert models["amlp-2-2-2"]["parameters"] == baseline + weights + per_unit * (784 + above_input)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "a cache [bold]"  # what Rich would take for markup must survive
    monkeypatch.setenv("LADDERNET_CACHE", str(cache))
    monkeypatch.setattr("laddernet.cli.train.out", Console(width=300))
    return cache


def test_data_lists_what_is_known_and_where_it_is(tmp_path: Path, empty_cache: Path) -> None:
    done = laddernet("data", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    _, digits_line, mnist_line = done.out.splitlines()
    assert re.search(r"digits +1,437 \+ 360 +64 +10 +ships with scikit-learn", digits_line)
    assert re.search(r"mnist +60,000 \+ 10,000 +784 +10 ", mnist_line)
    assert f"{empty_cache}/mnist (not fetched: laddernet data mnist)" in mnist_line


def test_data_as_json_is_a_list_of_objects(tmp_path: Path, empty_cache: Path) -> None:
    digits_info, mnist_info = json.loads(laddernet("data", "--json", cwd=tmp_path).out)
    assert (digits_info["name"], digits_info["n_train"], digits_info["cached"]) == ("digits", 1437, True)
    assert (mnist_info["name"], mnist_info["where"], mnist_info["cached"]) == ("mnist", f"{empty_cache}/mnist", False)


def test_data_that_ships_with_a_package_need_not_be_fetched(tmp_path: Path) -> None:
    done = laddernet("data", "digits", cwd=tmp_path)
    assert done == (0, "digits: ships with scikit-learn, nothing to fetch\n", "")


def test_the_version_is_that_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = laddernet("--version", cwd=tmp_path)
    assert done.code == 0
    assert re.fullmatch(r"laddernet \d+\.\d+\.\d+\n", done.out)


def test_python_m_laddernet_is_the_same_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["laddernet", "--version"])
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_module("laddernet", run_name="__main__")
    assert capsys.readouterr().out.startswith("laddernet ")


@pytest.mark.process
def test_help_lists_every_command_without_loading_what_they_need(tmp_path: Path) -> None:
    program = """
import sys
from laddernet.cli.main import main
try:
    main()
finally:
    assert not {"jax", "sklearn", "pandas", "optuna", "sqlalchemy"} & set(sys.modules)
"""
    listed = subprocess.run(
        [sys.executable, "-c", program, "--help"], capture_output=True, check=True, text=True, env=WIDE
    ).stdout
    for command in ("fit", "predict", "inspect", "suggest", "curve", "models", "data", "train", "study", "tune"):
        shown = re.sub(r"\s+", " ", laddernet(command, "--help", cwd=tmp_path).out)
        described = re.search(rf"│ {command} +(\S.*\S) +│", listed)
        assert described is not None
        assert described[1] in shown


def test_help_shows_the_defaults_that_are_said_in_words(tmp_path: Path) -> None:
    shown = re.sub(r"[\s│]+", " ", laddernet("train", "--help", cwd=tmp_path).out)
    assert shown.count("[default: the recipe's]") >= 3
    assert "[default: the paper's for mnist]" in shown


def test_a_misspelt_command_is_met_with_the_one_that_was_meant(tmp_path: Path) -> None:
    done = laddernet("predct", cwd=tmp_path)
    assert done.code == 2
    assert "Did you mean 'predict'" in done.err


def test_help_names_every_option_of_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = laddernet("train", "--help", cwd=tmp_path).out
    options = "data labels model seed epochs noise recon-weights hidden out eta learning-rate batch-size json"
    assert [name for name in options.split() if f"--{name}" not in out] == []


# --- train ------------------------------------------------------------------------------------------------------


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


# --- Bad input --------------------------------------------------------------------------------------------------

BAD = {
    "--model vanila": "There is no model 'vanila'; did you mean 'vanilla'? `laddernet models` lists them all.",
    "--model amlp-2-2-3": "There is no model 'amlp-2-2-3'; did you mean 'amlp-2-2-2'? ",
    "--model absent.py:Mix": "Cannot take the combinator 'absent.py:Mix' (",
    "--data mnits": "There is no data set 'mnits'; perhaps mnist was meant; the known ones are digits and mnist.",
    "--data cifar10": "There is no data set 'cifar10'; the known ones are digits and mnist.",
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


@pytest.mark.parametrize(
    "options",
    ["--epochs x", "--seed 1.5", "--evaluate-every 0", "--checkpoint-every -1", "--no-such-option", "extra"],
)
def test_what_is_no_command_line_at_all_is_one_sentence_and_ends_with_2(tmp_path: Path, options: str) -> None:
    done = laddernet("train", *options.split(), cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("laddernet: ")
    assert options.split()[0] in done.err
    assert done.err.endswith("; `laddernet train --help` shows what can be given.\n")
    assert done.err.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_a_name_with_a_line_break_does_not_break_the_sentence(tmp_path: Path) -> None:
    (tmp_path / "two\nlines").touch()
    done = laddernet("train", *OPTIONS, "--out", "two\nlines/run", cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


# --- Ctrl-C -----------------------------------------------------------------------------------------------------


@pytest.fixture
def interruptible(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ctrl-C as a terminal has it, and an end of the process that a test survives."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", leave)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_as_such_even_if_a_library_makes_another_error_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    def library() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("INTERNAL") from None

    with pytest.raises(SystemExit) as ended, stoppable("Stopped."):
        library()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Stopped.\n"


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_that_a_library_loses_is_sent_again(capsys: pytest.CaptureFixture[str]) -> None:
    def library() -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not threading.Event().wait(PATIENCE)

    with pytest.raises(SystemExit) as ended, stoppable("Stopped."):
        library()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Stopped.\n"


@pytest.mark.usefixtures("interruptible")
def test_an_error_without_ctrl_c_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="of its own"), stoppable("Stopped."):
        raise RuntimeError("of its own")
