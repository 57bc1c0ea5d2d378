"""Semi-supervised learning with Ladder Networks: a good classifier from many rows and few labels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from laddernet.errors import packages as _packages

if TYPE_CHECKING:
    from laddernet.classifier.curve import label_curve as label_curve
    from laddernet.classifier.curve import plot_label_curve as plot_label_curve
    from laddernet.classifier.estimator import LadderClassifier as LadderClassifier
    from laddernet.classifier.few_labels import FewLabelClassifier as FewLabelClassifier
    from laddernet.classifier.splits import LabelledKFold as LabelledKFold
    from laddernet.classifier.splits import LabelledOnly as LabelledOnly
    from laddernet.data import Dataset as Dataset
    from laddernet.data import TrainingData as TrainingData
    from laddernet.data import load as load
    from laddernet.data import training_data as training_data
    from laddernet.errors import DivergedError as DivergedError
    from laddernet.errors import InputError as InputError
    from laddernet.network.combinators import Combinator as Combinator
    from laddernet.network.combinators import PerUnit as PerUnit
    from laddernet.network.combinators import initially as initially
    from laddernet.network.models import MODELS as MODELS
    from laddernet.network.models import Model as Model
    from laddernet.network.models import find as find
    from laddernet.network.samples import Sampler as Sampler
    from laddernet.table.model import TableModel as TableModel
    from laddernet.training.config import Config as Config
    from laddernet.training.loop import Trained as Trained
    from laddernet.training.loop import train as train
    from laddernet.training.run import load_run as load_run
    from laddernet.training.samples import load_sampler as load_sampler
    from laddernet.training.settings import configure as configure

# Loaded when they are asked for: JAX, which not every use needs, takes a second.
_MODULES = {
    "classifier.curve": ["label_curve", "plot_label_curve"],
    "classifier.estimator": ["LadderClassifier"],
    "classifier.few_labels": ["FewLabelClassifier"],
    "classifier.splits": ["LabelledKFold", "LabelledOnly"],
    "data": ["Dataset", "TrainingData", "load", "training_data"],
    "errors": ["DivergedError", "InputError"],
    "network.combinators": ["Combinator", "PerUnit", "initially"],
    "network.models": ["MODELS", "Model", "find"],
    "network.samples": ["Sampler"],
    "table.model": ["TableModel"],
    "training.config": ["Config"],
    "training.loop": ["Trained", "train"],
    "training.run": ["load_run"],
    "training.samples": ["load_sampler"],
    "training.settings": ["configure"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _packages(f"{__name__}.{name}"):
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
