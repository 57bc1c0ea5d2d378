"""Data sets by name or in a user's file, and the split into labelled, unlabelled and validation rows."""

from laddernet.data.catalogue import DatasetInfo, fetch, is_file, known, load
from laddernet.data.dataset import Dataset, TrainingRows, check_finite
from laddernet.data.splits import Split, TrainingData, every_nth, split, training_data

__all__ = [
    "Dataset",
    "DatasetInfo",
    "Split",
    "TrainingData",
    "TrainingRows",
    "check_finite",
    "every_nth",
    "fetch",
    "is_file",
    "known",
    "load",
    "split",
    "training_data",
]
