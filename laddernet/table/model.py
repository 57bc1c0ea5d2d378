"""A model of a table: its columns, the transformer that makes inputs of them, and the classifier."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer

from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.few_labels import FewLabelClassifier
from laddernet.classifier.members import BLEND, LADDER
from laddernet.errors import InputError
from laddernet.inference import modelfile
from laddernet.table.columns import IDENTIFIER, Column, read_frame
from laddernet.table.estimate import Estimate
from laddernet.table.rounds import LabelFiles, open_all
from laddernet.table.rows import Rows, read_rows
from laddernet.table.stored import Classifier, content, restored
from laddernet.table.suggest import suggest_rows
from laddernet.table.table import Table, column_names
from laddernet.table.transformer import transformed

_KIND = "table"


@dataclass(frozen=True)
class TableModel:
    """A classifier for tables with text, dates and missing values.

    Make one with :meth:`fit` or :meth:`load`. The files are those of ``laddernet fit`` and ``laddernet predict``.

    Attributes
    ----------
    target : str
        The column of the classes.
    columns : tuple of Column
        The columns that are used, with the kind of each and how its cells are written.
    dropped : dict of str to str
        The columns that are not used, each with the reason.
    positional : int
        The number of columns of the array ``X``; 0 if the table had named columns.
    transformer : sklearn.compose.ColumnTransformer
        Makes the classifier's inputs of the columns.
    classifier : LadderClassifier or FewLabelClassifier
        The fitted classifier: the Ladder Network alone, or another method. Its classes are indices into ``classes``.
    classes : tuple of str
        The classes: numbers by size, then words by the alphabet.
    labels : dict of str to int
        The number of labelled rows of each class.
    rows : int
        The number of rows, labelled or not.
    estimate : Estimate or None
        The estimated error, if ``laddernet fit`` has made an estimate.
    version : str
        The version of laddernet that fitted the model.
    unlabeled : str or None
        The mark of a row without a label, if one was given.

    Examples
    --------
    >>> frame = pd.DataFrame({"size": [1.0, 1.2, 3.1, 2.9] * 10, "colour": ["red", "red", "blue", None] * 10})
    >>> frame["kind"] = ["a", "a", "b", "b"] * 2 + [None] * 32
    >>> model = TableModel.fit(frame, "kind", hidden=[8], max_steps=100, random_state=0)
    >>> model.labels
    {'a': 4, 'b': 4}
    >>> model.predict(pd.DataFrame({"size": [1.1, 3.0], "colour": ["red", "green"]})).tolist()
    ['a', 'b']
    """

    target: str
    columns: tuple[Column, ...]
    dropped: dict[str, str]
    positional: int
    transformer: ColumnTransformer
    classifier: Classifier
    classes: tuple[str, ...]
    labels: dict[str, int]
    rows: int
    estimate: Estimate | None = None
    version: str = metadata.version("laddernet")
    unlabeled: str | None = None

    @classmethod
    def of(cls, rows: Rows, classifier: FewLabelClassifier) -> "TableModel":
        """Make the model of a classifier that was fitted to the rows of a table.

        Parameters
        ----------
        rows : laddernet.table.rows.Rows
            The rows, with the columns and the transformer that made them.
        classifier : FewLabelClassifier
            The classifier. If its method is the Ladder Network alone, the model holds only the network.

        Returns
        -------
        TableModel
            The model.
        """
        # By itself, the Ladder Network has more methods, such as export to ONNX.
        alone = classifier.network if classifier.method_ == LADDER else None
        read = (rows.target, rows.columns, rows.dropped, rows.positional, rows.transformer)
        return cls(*read, alone or classifier, rows.classes, rows.labels, len(rows.codes), unlabeled=rows.unlabeled)

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        target: str,
        *,
        unlabeled: Any = None,
        drop: Sequence[str] = (),
        use: Sequence[str] = (),
        category: Sequence[str] = (),
        labels: LabelFiles = (),
        method: str = BLEND,
        **settings: Any,
    ) -> "TableModel":
        """Train a model on a frame.

        Warns where ``laddernet fit`` prints a notice, as about cells that are not numbers.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table, with a row for each example, labelled or not.
        target : str
            The column of the classes. A row whose cell is empty is unlabelled.
        unlabeled : str or number, optional
            A value of the target that marks unlabelled rows, besides empty cells.
        drop : list of str, optional
            Columns to leave out.
        use : list of str, optional
            Columns to use even if they look like identifiers.
        category : list of str, optional
            Columns that hold categories even if they look like numbers.
        labels : data frame or path, or a list of these, optional
            Rows with labels, as :meth:`suggest` returns them, found by identifier or row number; the last label counts.
        method : str, optional
            A method of :class:`FewLabelClassifier`. With "auto" all methods are cross-validated first.
        **settings
            Parameters of :class:`LadderClassifier`, the Ladder Network among the methods.

        Returns
        -------
        TableModel
            The trained model.

        Raises
        ------
        InputError
            If a column is missing, there are fewer than two classes, or no column can be used.
        TypeError
            If a setting is not a parameter of :class:`LadderClassifier`.
        """
        table = Table.of(frame)
        ladder = LadderClassifier(**settings)
        classifier = FewLabelClassifier(method, ladder=ladder, random_state=ladder.random_state)
        if target is None:
            raise InputError("target must be the name of the column of the classes, got None.")
        rows = read_rows(
            table,
            str(target),  # columns of a frame may have numbers for names; here all names are text
            unlabeled=unlabeled,
            drop=column_names("drop", drop),
            use=column_names("use", use),
            category=column_names("category", category),
            labels=open_all(labels),
        )
        for notice in rows.notices:
            warnings.warn(notice, stacklevel=2)
        return cls.of(rows, classifier.fit(rows.X, rows.codes))

    def features(self, frame: pd.DataFrame, unread: Counter[str] | None = None) -> np.ndarray:
        """Compute the classifier's inputs.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table; columns are matched by name.
        unread : collections.Counter, optional
            Counts, by column, the filled cells that are not of the column's kind. They count as missing.

        Returns
        -------
        numpy.ndarray
            One row of float64 for each row of the table.

        Raises
        ------
        InputError
            If a column is missing, or ten or more cells of a column are filled and none is of its kind.
        """
        return transformed(self.transformer, read_frame(self.columns, frame, unread))

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        """Compute the probability of each class.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table; columns are matched by name, and a target is ignored.

        Returns
        -------
        numpy.ndarray
            One row for each row of the table, one column for each of ``classes``.

        Raises
        ------
        InputError
            As :meth:`features`.
        """
        return np.asarray(self.classifier.predict_proba(self.features(frame)))

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        """Predict the class of each row.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table, as for :meth:`predict_proba`.

        Returns
        -------
        numpy.ndarray
            The most probable class of each row, as text.

        Raises
        ------
        InputError
            As :meth:`features`.
        """
        return np.asarray(np.array(self.classes, object)[self.predict_proba(frame).argmax(axis=1)])

    def suggest(
        self, frame: pd.DataFrame, *, count: int = 20, unlabeled: Any = None, labels: LabelFiles = ()
    ) -> pd.DataFrame:
        """Choose the unlabelled rows that are most useful to label.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table. Rows whose target is not empty are labelled; without a target no row is.
        count : int, default 20
            The number of rows to choose.
        unlabeled : str or number, optional
            A value of the target that marks unlabelled rows. None: that of :meth:`fit`.
        labels : data frame or path, or a list of these, optional
            Further labels, as for :meth:`fit`.

        Returns
        -------
        pandas.DataFrame
            The chosen rows, the best first, with the index of ``frame``: the columns of the file that ``laddernet
            suggest`` writes. A person fills in the empty target, and :meth:`fit` takes it as ``labels``.

        Raises
        ------
        InputError
            If a column is missing.
        """
        return suggest_rows(self, frame, unlabeled=unlabeled, count=count, labels=open_all(labels))

    @property
    def method(self) -> str:
        """The method of :class:`FewLabelClassifier` that predicts."""
        return self.classifier.method_ if isinstance(self.classifier, FewLabelClassifier) else LADDER

    @property
    def network(self) -> LadderClassifier | None:
        """The Ladder Network, if the method has one."""
        return self.classifier if isinstance(self.classifier, LadderClassifier) else self.classifier.network

    def embed(self, x: np.ndarray) -> np.ndarray:
        """Compute the coordinates in which the distance of two rows is measured.

        Parameters
        ----------
        x : numpy.ndarray
            The classifier's inputs, from :meth:`features`.

        Returns
        -------
        numpy.ndarray
            Activations of the Ladder Network's last hidden layer; the scaled columns if there is no Ladder Network.
        """
        held = self.classifier
        return np.asarray(held.transform(x) if isinstance(held, LadderClassifier) else held.embed(x))

    @property
    def identifiers(self) -> list[str]:
        """The columns that `fit` recognised as identifiers."""
        return [name for name, reason in self.dropped.items() if reason == IDENTIFIER]

    def check(self, table: Table) -> list[str]:
        """Check that a table has all columns of the model.

        Parameters
        ----------
        table : laddernet.table.table.Table
            The table.

        Returns
        -------
        list of str
            The table's other columns: those that are not used, not dropped and not the target.

        Raises
        ------
        InputError
            If a column is missing, or an array has another number of columns.
        """
        if table.positional and self.positional and table.positional != self.positional:
            raise InputError(f"{table.name}: X has {table.positional:,} columns; the model takes {self.positional:,}.")
        advice = "give all that the model was fitted with; `laddernet inspect` lists them."
        table.require([column.name for column in self.columns], advice)
        known = {self.target, *self.dropped, *(column.name for column in self.columns)}
        return [name for name in table.columns if name not in known]

    def parts(self, table: Table, more: Sequence[str] = ()) -> Iterator[pd.DataFrame]:
        """Read a table in parts.

        Parameters
        ----------
        table : laddernet.table.table.Table
            The table.
        more : list of str, optional
            Columns to read besides those that the model uses.

        Yields
        ------
        pandas.DataFrame
            The next rows.
        """
        return table.parts(list(dict.fromkeys([*(column.name for column in self.columns), *more])))

    def save(self, path: str | Path) -> None:
        """Write the model to one safetensors file, which ``laddernet predict`` reads too.

        Parameters
        ----------
        path : str or pathlib.Path
            The file. An existing file is replaced when the new one is complete.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        arrays, about = content(self)
        modelfile.write(path, _KIND, arrays, about)

    def to_onnx(self, path: str | Path, *, numbers: bool = False) -> None:
        """Write an ONNX model that takes the cells of a table: an input for each column. The package onnx is required.

        Parameters
        ----------
        path : str or pathlib.Path
            The file. An existing file is replaced when the new one is complete.
        numbers : bool, optional
            Take columns of numbers as float64, NaN where missing, instead of text.

        Raises
        ------
        InputError
            If the package onnx is missing, or the file cannot be written.
        """
        from laddernet.table.onnx import write

        write(Path(path), self, numbers=numbers)

    @classmethod
    def load(cls, path: str | Path) -> "TableModel":
        """Read a model from its file; no code in the file is run.

        Parameters
        ----------
        path : str or pathlib.Path
            A file of :meth:`save` or ``laddernet fit``.

        Returns
        -------
        TableModel
            The model, which predicts as before.

        Raises
        ------
        InputError
            If the file is not a complete and unchanged model.
        """
        with modelfile.understood(path):
            return cls(**restored(*modelfile.read(path, _KIND)))
