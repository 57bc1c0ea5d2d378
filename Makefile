# Both commands set up what they need: a virtual environment in .venv, remade when the dependencies change.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint clean
.DELETE_ON_ERROR:

demo: .venv/installed
	$(BIN)/python examples/demo.py

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
