"""The sampler of a run: its network, with the statistics of the rows that it was trained on."""

import os
from pathlib import Path

import jax
import numpy as np

from laddernet import checks
from laddernet.data import Dataset, load, training_data
from laddernet.errors import InputError
from laddernet.network.samples import Sampler, check_generative
from laddernet.text import one_line
from laddernet.training.run import load_run


def load_sampler(folder: str | os.PathLike[str], dataset: Dataset | None = None) -> tuple[Sampler, Dataset]:
    """Read the network of a finished run, and make the sampler that draws from it.

    Parameters
    ----------
    folder
        The run's folder.
    dataset
        The data set that the run was trained on. None: one of laddernet's own, which is loaded by its name in the run.

    Returns
    -------
    Sampler
        Draws samples. Its statistics are those of the run's training rows, which are loaded for it.
    Dataset
        The data set of the run.

    Raises
    ------
    InputError
        If the folder holds no finished run, a file in it is damaged, the run's model has no decoder, or the run was
        trained on other data.
    """
    folder = Path(folder)
    config, trained = load_run(folder)
    ladder = trained.ladder
    try:
        noise = checks.numbers("noise", config.noise)
        recon_weights = checks.numbers("recon_weights", config.recon_weights)
        if not len(noise) == len(recon_weights) == len(ladder.sizes):
            raise TypeError(f"noise and recon_weights must have {len(ladder.sizes)} values")
        check_generative(ladder, noise, recon_weights)
        dataset = load(config.data) if dataset is None and config.content is None else dataset
        if dataset is None:
            raise InputError(f"The run in {folder} was trained on a file of your own; give its data too (--data).")
        if (dataset.name, dataset.content) != (config.data, config.content):
            raise InputError(f"The run in {folder} was trained on other data than this {dataset.name}; give the same.")
        rows = training_data(dataset, config.labels, config.validation, config.seed).x_unlabelled
    except (TypeError, AttributeError) as error:  # a field of another type
        damaged = f"{folder / 'config.json'} is damaged ({one_line(error)})"
        raise InputError(f"{damaged}; name a folder of a finished run.") from error
    has, wanted = (ladder.sizes[0], ladder.sizes[-1]), (dataset.n_features, dataset.n_classes)
    if has != wanted:
        network = f"The network in {folder} has {has[0]} columns and {has[1]} classes"
        raise InputError(f"{network}, its data set {dataset.name} has {wanted[0]} and {wanted[1]}; train it again.")
    if not all(np.isfinite(array).all() for array in jax.tree.leaves(ladder)):
        raise InputError(f"{folder / 'weights.safetensors'} holds numbers that are not finite; train the run again.")
    return Sampler.of(ladder, rows, noise, recon_weights), dataset
