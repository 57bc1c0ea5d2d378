# Both commands set up what they need: a virtual environment in .venv, remade when the dependencies change. The tests
# also need a browser, PostgreSQL, npm and a C compiler: tests/tools.py installs them where it may, and the tests that
# need a tool which is missing are skipped, or fail with CI=true.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test tools lint docs stress torture bench clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: .venv/installed
	$(BIN)/laddernet study demo --out study-demo

test: tools lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

tools:
	$(PYTHON) tests/tools.py

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as a site, in site/; tests/docs/test_site.py builds it too.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# ROUNDS=10: the tests that start processes, servers or a browser, with every core busy.
stress: tools .venv/installed
	tests/stress $(ROUNDS)

# Minutes; LONG=1: hours. The figures go to results/torture.md.
torture: tools .venv/installed
	LONG=$(LONG) $(BIN)/python -m torture $(TORTURE)

bench: .venv/bench
	$(BIN)/python benchmarks/bench.py

.venv/installed: pyproject.toml
	$(PYTHON) tests/tools.py venv
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
