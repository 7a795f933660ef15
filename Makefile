# Two commands do everything on a machine with Python 3.11 or newer: `make plan` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: plan test lint bench clean

plan: $(VENV)/core.stamp  ## plan an example and check the plan
	$(BIN)/rollplan plan examples/production_ten/paper_prices.yaml -o plan.json
	$(BIN)/rollplan check examples/production_ten/paper_prices.yaml plan.json --max-gap 2%

test: $(VENV)/dev.stamp  ## run all tests, the slow ones too
	$(BIN)/python -m pytest

lint: $(VENV)/dev.stamp  ## formatter, linter, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/core.stamp  ## side by side with the baselines
	$(BIN)/python benchmarks/admission.py
	$(BIN)/python benchmarks/colocation.py

$(VENV)/core.stamp: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rollplan needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/core.stamp
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) plan.json
