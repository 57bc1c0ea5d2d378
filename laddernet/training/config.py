"""The configuration of a run, and its fingerprint."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from laddernet.kernels.products import Precision

# Part of every fingerprint: raised when the result of a configuration changes.
REVISION = 10

Record = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """The settings that determine the result of a run. Made by :func:`laddernet.configure`.

    Attributes
    ----------
    data : str
        The name of the data set.
    labels, validation : int
        The number of labelled rows, and of rows that are held out for validation.
    model : str
        The id of the model.
    hidden : tuple of int
        The sizes of the hidden layers.
    noise : tuple of float
        The standard deviation of the noise at layers 0 to L.
    recon_weights : tuple of float
        The weights λ of the reconstruction costs of layers 0 to L.
    eta : float
        The standard deviation of an MLP combinator's initial weights.
    epochs, decay_epochs : int
        The number of epochs, and of the last ones over which the learning rate falls to zero.
    learning_rate : float
        The learning rate before that.
    batch_size : int
        The number of unlabelled rows of a step.
    labelled_batch_size : int
        The number of labelled rows of a step. Fewer labelled rows are repeated, each with its own noise.
    seed : int
        The seed of initial values, noise, order and labelled rows.
    weight_decay : float
        The share of W and V subtracted in a step, as a multiple of the learning rate.
    copies : int
        The number of copies of each unlabelled row in a step, in pairs with opposite noise.
    source : str or None
        A digest of the code of a user's combinator.
    precision : str
        The precision of the operands of matrix products, ``"float32"`` or ``"bfloat16"``.
    content : str or None
        A digest of a user's data. The data sets of laddernet have none.
    """

    data: str
    labels: int
    validation: int
    model: str
    hidden: tuple[int, ...]
    noise: tuple[float, ...]  # at layers 0 to L
    recon_weights: tuple[float, ...]  # λ of layers 0 to L
    eta: float
    epochs: int
    decay_epochs: int  # the last of these
    learning_rate: float
    batch_size: int
    labelled_batch_size: int
    seed: int
    weight_decay: float = 0.0
    copies: int = 1
    source: str | None = None
    precision: Precision = "float32"
    content: str | None = None

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Config":
        """Make a configuration from its JSON form.

        Parameters
        ----------
        values : dict of str to object
            The settings by name, with lists for tuples.

        Returns
        -------
        Config
            The configuration.
        """
        settings: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**settings)

    @property
    def fingerprint(self) -> str:
        """A hash of the configuration and `REVISION`, which identifies a run."""
        return self.fingerprint_at(REVISION)

    def fingerprint_at(self, revision: int) -> str:
        """Compute the fingerprint for a revision of the training program.

        Parameters
        ----------
        revision : int
            The revision; that of the present program is `REVISION`.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        usual = {"source": None, "precision": "float32", "content": None}  # left out, as in older runs
        values = {name: v for name, v in asdict(self).items() if name not in usual or v != usual[name]}
        text = json.dumps([revision, values], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
