"""Semi-supervised learning with Ladder Networks: a good classifier from many rows and few labels."""

from laddernet.classifier import LadderClassifier
from laddernet.combinators import Combinator, PerUnit, initially
from laddernet.data import Dataset, TrainingData, load, training_data
from laddernet.errors import DivergedError, InputError
from laddernet.models import MODELS, Model, find
from laddernet.run import load_run
from laddernet.settings import configure
from laddernet.training import Config, Trained, train

__all__ = [
    "MODELS",
    "Combinator",
    "Config",
    "Dataset",
    "DivergedError",
    "InputError",
    "LadderClassifier",
    "Model",
    "PerUnit",
    "Trained",
    "TrainingData",
    "configure",
    "find",
    "initially",
    "load",
    "load_run",
    "train",
    "training_data",
]
