# Both commands set up what they need: a virtual environment in .venv, remade when the dependencies change.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench clean
.DELETE_ON_ERROR:

demo: .venv/installed
	$(BIN)/laddernet study demo --out study-demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/bench
	$(BIN)/python benchmarks/bench.py

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# LAMDA-SSL without its dependencies: torchvision, torchtext, torch-geometric and others serve its other methods, and
# the bench takes from it only what PyTorch and scikit-learn suffice for.
.venv/bench: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps LAMDA-SSL==1.0.2
	touch $@

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
