from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from laddernet.table.read import open_table


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_file_is_read_in_parts_with_images_as_rows(
    tmp_path: Path, save: Callable[..., None], order: Any, small_parts: None
) -> None:
    x = np.asarray(np.random.default_rng(0).normal(size=(70, 3, 4)), order=order)
    save(tmp_path / "t.npz", X=x, y=np.arange(70), names=np.array([f"n{i}" for i in range(70)]))
    table = open_table(tmp_path / "t.npz")
    parts = list(table.parts(["x11", "x0", "names"]))
    assert len(parts) == 9
    whole = pd.concat(parts)
    assert np.array_equal(whole[["x0", "x11"]], x.reshape(70, 12)[:, [0, 11]])
    assert whole["names"].tolist() == [f"n{i}" for i in range(70)]
    assert whole.index.tolist() == list(range(1, 71))
