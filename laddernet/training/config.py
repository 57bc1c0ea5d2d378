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
    """The settings that determine the result of a run. Made by :func:`laddernet.configure`."""

    data: str
    labels: int
    validation: int
    model: str
    hidden: tuple[int, ...]
    noise: tuple[float, ...]  # standard deviation at layers 0 to L
    recon_weights: tuple[float, ...]  # λ of layers 0 to L
    eta: float
    epochs: int
    decay_epochs: int  # number of the last epochs, over which the learning rate falls to zero
    learning_rate: float
    batch_size: int  # unlabelled rows of a step
    labelled_batch_size: int  # if there are fewer labelled rows, they are repeated, each with its own noise
    seed: int
    weight_decay: float = 0.0  # share of W and V subtracted in a step, as a multiple of the learning rate
    copies: int = 1  # of each unlabelled row in a step, in pairs with opposite noise
    source: str | None = None  # digest of the code of a user's combinator (laddernet.network.sources)
    precision: Precision = "float32"  # of the operands of matrix products
    content: str | None = None  # digest of a user's data; the data sets of laddernet have none

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Config":
        """Make a configuration from its JSON form, in which tuples are lists."""
        settings: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**settings)

    @property
    def fingerprint(self) -> str:
        """A hash of the configuration and the revision, which identifies a run."""
        return self.fingerprint_at(REVISION)

    def fingerprint_at(self, revision: int) -> str:
        """Return the fingerprint of this configuration for a revision of the training program."""
        values = asdict(self)
        for name, usual in (
            ("source", None),
            ("precision", "float32"),
            ("content", None),
        ):  # keep the fingerprints of older runs
            if values[name] == usual:
                del values[name]
        text = json.dumps([revision, values], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
