from pathlib import Path

from support import Finished

from laddernet.table.gain import earlier_estimate
from laddernet.table.model import TableModel


def test_the_earlier_estimate_is_that_of_the_first_file_with_a_model_of_this_target(
    fitted: tuple[Path, Finished], tmp_path: Path
) -> None:
    model = fitted[0] / "clinic.safetensors"
    (tmp_path / "other").write_bytes(b"precious")
    kept = TableModel.load(model).estimate
    assert kept is not None
    assert earlier_estimate("result", tmp_path / "absent", tmp_path / "other", model) == kept
    assert earlier_estimate("ward", model) is None
    assert earlier_estimate("result") is None
