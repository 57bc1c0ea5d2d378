"""How long the paper's network takes to compile, and how much memory: python benchmarks/startup.py MODEL.

One model a process, without the compilation cache: what a new user waits for.
"""

import resource
import sys
import time

import jax
import jax.numpy as jnp

from laddernet import configure, find, load, training_data
from laddernet.training import _epoch, _initial_state, steps_per_epoch

model = find(sys.argv[1])
dataset = load("mnist")
config = configure(dataset, labels=100, model=model, validation=0)
data = training_data(dataset, config.labels, config.validation, config.seed)
rows = (jnp.asarray(data.x_labelled), jnp.asarray(data.y_labelled), jnp.asarray(data.x_unlabelled))

started = time.perf_counter()
sizes = (dataset.n_features, *config.hidden, dataset.n_classes)
state = jax.block_until_ready(_initial_state(jax.random.key(0), config.eta, model, sizes))
initial = time.perf_counter()
rates = jnp.zeros(steps_per_epoch(config, len(rows[2])))
keys = (jax.random.key(1), jax.random.key(2))
layers = jnp.zeros(len(sizes))
lowered = _epoch.lower(state, rows, keys, [(0, 0), (0, 0)], rates, layers, layers, (100, 100))
traced = time.perf_counter()
lowered.compile()
compiled = time.perf_counter()

peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{model}: initial values {initial - started:.1f} s, tracing {traced - initial:.1f} s, ", end="")
print(f"compiling {compiled - traced:.1f} s, peak memory of all this {peak:.0f} MB")
