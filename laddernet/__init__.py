"""Semi-supervised learning with Ladder Networks: a good classifier from many rows and few labels."""

from laddernet.classifier import LadderClassifier
from laddernet.combinators import Combinator, PerUnit, initially
from laddernet.curve import label_curve, plot_label_curve
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
    "label_curve",
    "load",
    "load_run",
    "plot_label_curve",
    "train",
    "training_data",
]
