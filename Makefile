# Each target sets up .venv by itself; `make` alone says what there is.
BACKEND ?= reference
PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
READY := .venv/.installed
TIMES := --benchmark-only --benchmark-max-time=0.1 --benchmark-min-rounds=20 --benchmark-columns=median,rounds

.DEFAULT_GOAL := help
.PHONY: help conformance thorough test check mutants mutation crash fuzz bench dumps cuda clean

help: ## this text
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo 'make conformance BACKEND=torchrl ARGS="-k CAP"   any backend, any option of pytest'

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,torchrl]'
	touch $@

conformance: $(READY) ## check that BACKEND meets SPEC.md
	$(BIN)/pytest --conformance=$(BACKEND) $(ARGS)

thorough: $(READY) ## the same, hunting ten times as long, and the long tests of this project
	$(BIN)/pytest --conformance=$(BACKEND) --conformance-profile=thorough $(ARGS)
	$(BIN)/pytest -m thorough

test: $(READY) ## the tests of this project, with one run of the suite on the reference
	$(BIN)/pytest $(ARGS)

check: $(READY) ## format, lint, types, tests, wheel
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pytest $(ARGS)
	$(BIN)/python -m build --wheel --outdir dist

mutants: $(READY) ## faulty storages: is each caught? ARGS="--seed 3", or "--whole" to see who else notices
	$(BIN)/python -W ignore -m storage_conformance.mutants.matrix $(ARGS)

mutation: $(READY) ## changes of the reference's own source, with the suite as judge (hours; ARGS="--sample 50 --seed 1")
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[mutation]'
	$(BIN)/python -W ignore tests/mutation $(ARGS)

crash: $(READY) ## dumps that are killed or refused midway: is the old one or the new one left?
	$(BIN)/python -W ignore tests/crash $(ARGS)

fuzz: $(READY) ## loads of damaged and hostile dumps
	$(BIN)/python -W ignore tests/fuzz $(ARGS)

bench: $(READY) ## speed and memory beside other storages: the goals, and what the documents show of it
	$(BIN)/python -m pip install --quiet --constraint benchmarks/peers.txt --editable '.[peers]' || echo 'without other libraries'
	mkdir -p .benchmarks
	$(BIN)/python -W ignore -m pytest benchmarks $(TIMES) --benchmark-json=.benchmarks/timings.json -W ignore -rs -q $(ARGS)
	$(BIN)/python -W ignore benchmarks/report.py .benchmarks/timings.json

dumps: $(READY) ## time and memory of dumps and loads of 4 GiB beside a plain copy
	$(BIN)/python -W ignore benchmarks/dumps.py --document $(ARGS)

cuda: $(READY) ## on a machine with CUDA: the suite on BACKEND there, tests, benchmarks
	$(BIN)/pytest --conformance=$(BACKEND) --conformance-device=cuda $(ARGS)
	$(BIN)/pytest
	$(BIN)/pytest benchmarks $(TIMES) -k cuda

clean: ## remove what make and the tools have made
	rm -rf .venv dist build .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
