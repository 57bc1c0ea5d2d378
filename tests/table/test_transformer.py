import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from clinic import clinic
from hypothesis import given, settings
from hypothesis import strategies as st

from laddernet.table import transformer as transformers
from laddernet.table.columns import Column, read_columns
from laddernet.table.rows import read_rows
from laddernet.table.table import Table
from laddernet.table.transformer import learn, rare_below, restore, state, transformed

_numbers = st.one_of(st.none(), st.floats(-1e6, 1e6).map(lambda value: round(value, 3)))


_words = st.one_of(st.none(), st.sampled_from(["a", "b", "c", "", "NA", "ä", "\0", "1"]), st.text(max_size=3))


_days = st.one_of(st.none(), st.dates().map(str))


_truths = st.sampled_from(["yes", "no", None])


_tables = st.lists(st.tuples(_numbers, _numbers, _words, _words, _days, _truths), min_size=4, max_size=60)


@settings(max_examples=25, deadline=None)
@given(learned=_tables, new=_tables)
def test_a_transformer_that_was_stored_transforms_any_table_as_before(learned: list[Any], new: list[Any]) -> None:
    kinds = {"n1": "number", "n2": "number", "w1": "category", "w2": "category", "d": "date", "t": "boolean"}
    forms = {"number": "1000.5", "date": "ISO8601"}
    before = pd.DataFrame(learned, columns=list(kinds), dtype=object)
    columns = [Column(name, kind, forms.get(kind, "")) for name, kind in kinds.items()]  # type: ignore[arg-type]
    frame = read_columns(columns, before)
    # As `read_rows` does: what is empty, or has no category that comes twice, is no column.
    columns = [
        column
        for column in columns
        if (
            frame[column.name].value_counts().iloc[0] > 1
            if column.kind == "category"
            else frame[column.name].notna().any()
        )
    ]
    if not columns:
        return
    frame = frame[[column.name for column in columns]]
    transformer = learn(columns, frame)
    arrays, about = state(columns, transformer)
    stored = safetensors.numpy.load(safetensors.numpy.save(arrays))
    restored = restore(columns, stored, json.loads(json.dumps(about)))
    assert type(restored) is type(transformer)
    assert restored.get_feature_names_out().tolist() == transformer.get_feature_names_out().tolist()
    for table in (before, pd.DataFrame(new, columns=list(kinds), dtype=object)):
        read_table = read_columns(columns, table)
        assert np.array_equal(restored.transform(read_table), transformer.transform(read_table))


def test_rare_categories_are_not_named_in_the_model() -> None:
    frame = clinic().assign(who=["common"] * 239 + ["Jane Doe"])
    rows = read_rows(Table.of(frame), "result")
    _, about = state(rows.columns, rows.transformer)
    assert about["categories"]["who"] == {"kept": ["common"], "pooled": 1}


def test_a_column_becomes_no_more_than_fifty_inputs() -> None:
    frame = clinic(2000).assign(code=[f"c{i % 100}" for i in range(2000)])
    rows = read_rows(Table.of(frame[["code", "result"]]), "result")
    assert rows.X.shape == (2000, 50)
    assert (rows.X.sum(axis=1) == 1).all()


@settings(max_examples=60)
@given(
    cells=st.lists(st.integers(0, 12), min_size=30, max_size=120),
    numbers=st.lists(_numbers, min_size=2, max_size=9),
    most=st.integers(2, 12),
    new=st.lists(st.integers(0, 14), max_size=5),
)
def test_what_is_learned_and_computed_is_what_scikit_learn_does(
    cells: list[int], numbers: list[float | None], most: int, new: list[int]
) -> None:
    columns = [Column("n", "number", "1000.5"), Column("c", "category"), Column("d", "date", "ISO8601")]

    def table(codes: list[int]) -> pd.DataFrame:
        days = [None if code == 3 else f"2024-01-{code + 1:02}" for code in codes]
        repeated = (numbers * len(codes))[: len(codes)]
        frame = pd.DataFrame({"n": repeated, "c": [f"c{code}" for code in codes], "d": days}, dtype=object)
        return read_columns(columns, frame)

    frame = table(cells)
    if frame["n"].isna().all() or frame["d"].isna().all():
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers, "CATEGORIES", most)
        theirs = transformers._untrained(columns, {"d": frame["d"].min()}, rare_below(len(frame))).fit(frame)
        ours = learn(columns, frame)
    for rows in (frame, table(new)):
        expected = theirs.transform(rows) if len(rows) else np.zeros((0, len(theirs.get_feature_names_out())))
        assert np.array_equal(transformed(ours, rows), expected)
        assert np.array_equal(transformed(theirs, rows), expected)
