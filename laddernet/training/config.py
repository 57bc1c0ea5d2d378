"""The configuration of a run, and its fingerprint."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from laddernet.kernels.products import Precision

# What the fingerprint of a configuration begins with: raised when the same configuration computes something else.
REVISION = 10

Record = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """All that decides what a run computes. Build it with :func:`laddernet.training.settings.configure`."""

    data: str
    labels: int
    validation: int
    model: str
    hidden: tuple[int, ...]
    noise: tuple[float, ...]  # standard deviation at layers 0 to L
    recon_weights: tuple[float, ...]  # λ of layers 0 to L
    eta: float
    epochs: int
    decay_epochs: int  # how many of them, the last, let the learning rate fall to zero
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
        """The configuration that JSON holds, where tuples have become lists."""
        settings: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**settings)

    @property
    def fingerprint(self) -> str:
        """A name for what is computed: the same for the same configuration, different for any other."""
        return self.fingerprint_at(REVISION)

    def fingerprint_at(self, revision: int) -> str:
        """Return the fingerprint that this configuration has, or had, in a revision of the training program."""
        values = asdict(self)
        for name, usual in (("source", None), ("precision", "float32")):  # runs keep the names from before these fields
            if values[name] == usual:
                del values[name]
        text = json.dumps([revision, values], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
