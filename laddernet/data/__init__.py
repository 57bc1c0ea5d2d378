"""The data sets digits and MNIST, and the split of training rows into labelled, unlabelled and validation rows."""

from laddernet.data.catalogue import DatasetInfo, fetch, known, load
from laddernet.data.dataset import Dataset, TrainingRows, check_finite
from laddernet.data.splits import Split, TrainingData, split, training_data

__all__ = [
    "Dataset",
    "DatasetInfo",
    "Split",
    "TrainingData",
    "TrainingRows",
    "check_finite",
    "fetch",
    "known",
    "load",
    "split",
    "training_data",
]
