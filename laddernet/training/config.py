"""The configuration of a run, and its fingerprint."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from laddernet.kernels.products import Precision

# Part of every fingerprint: raised when the same configuration comes to compute something else.
REVISION = 10

Record = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """Every setting that the result of a run depends on. Make it with :func:`laddernet.configure`."""

    data: str
    labels: int
    validation: int
    model: str
    hidden: tuple[int, ...]
    noise: tuple[float, ...]  # standard deviation at layers 0 to L
    recon_weights: tuple[float, ...]  # λ of layers 0 to L
    eta: float
    epochs: int
    decay_epochs: int  # the number of epochs, the last, over which the learning rate falls to zero
    learning_rate: float
    batch_size: int  # unlabelled rows of a step
    labelled_batch_size: int  # if there are fewer, a labelled row comes several times, each with its own noise
    seed: int
    weight_decay: float = 0.0  # share of W and V that a step takes away, as a multiple of its learning rate
    copies: int = 1  # of each unlabelled row in a step, in pairs with opposite noise
    source: str | None = None  # the digest of the code of a combinator of the user's own (laddernet.network.sources)
    precision: Precision = "float32"  # of the operands of matrix products

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Config":
        """Return the configuration that was written as JSON, where tuples have become lists."""
        settings: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**settings)

    @property
    def fingerprint(self) -> str:
        """A hash of the configuration and the revision: a run is identified by it."""
        return self.fingerprint_at(REVISION)

    def fingerprint_at(self, revision: int) -> str:
        """Return the fingerprint that this configuration has, or had, in a revision of the training program."""
        values = asdict(self)
        for name, usual in (("source", None), ("precision", "float32")):  # runs keep the names from before these fields
            if values[name] == usual:
                del values[name]
        text = json.dumps([revision, values], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
