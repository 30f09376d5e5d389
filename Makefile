# Every target makes or updates the virtual environment that it needs.

PYTHON ?= python3
VENV ?= .venv

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PACKAGE := $(VENV)/.installed
DEV := $(VENV)/.dev-installed

.PHONY: help install dev quickstart test faults soak fuzz lint format bench constraints clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

install: $(PACKAGE) ## Install the package into .venv (or VENV=folder), with PYTHON=python3

dev: $(DEV) ## Install the tools for tests and lint as well

quickstart: $(PACKAGE) ## Run sweeps/quickstart.yaml on the bundled digits, up to its figure
	@start=$$(date +%s); $(BIN)/ablation run sweeps/quickstart.yaml; status=$$?; \
	echo "Sweep: $$(($$(date +%s) - start)) s"; exit $$status

test: $(DEV) ## Run the unit tests
	$(BIN)/python -m pytest -n logical -m 'not slow and not soak'

faults: $(DEV) ## Run real sweeps and disturb them
	$(BIN)/python -m pytest -m slow

soak: $(DEV) ## Disturb real sweeps in every way there is, then at random
	$(BIN)/python -m pytest -m soak tests/faults
	$(BIN)/python -m tests.faults.soak

fuzz: $(DEV) ## Give the readers of sweep files and records 10,000 random inputs each
	ABLATION_FUZZ=10000 $(BIN)/python -m pytest -m fuzz --timeout 0

lint: $(DEV) ## Check style, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict

format: $(DEV) ## Mend style and format where that needs no thought
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(DEV) ## Time the hot paths beside their references; BASE=checkout of an earlier commit
	@$(BIN)/python -m tests.benchmarks.table $(BASE)
	@set -e; for name in diagnostics statistics; do echo "== $$name"; $(BIN)/python -m tests.benchmarks.bench_$$name; done

# Resolved anew, beside what is installed. torch itself pins the CUDA packages of the platforms that have them.
constraints: $(DEV) ## Pin the newest versions that fit together; with the oldest Python supported
	( grep '^#' constraints.txt; \
	  $(PIP) install --dry-run --ignore-installed --editable . --group dev \
	    | sed -n 's/^Would install //p' | tr ' ' '\n' | sed -E 's/-([^-]+)$$/==\1/' | LC_ALL=C sort -f \
	    | grep -vE '^(batchsize-ablation|cuda-.*|nvidia-.*|triton)==' ) > $(VENV)/constraints.txt
	mv $(VENV)/constraints.txt constraints.txt

clean: ## Remove caches and builds; .venv and results stay
	rm -rf dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find ablation tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(PACKAGE): pyproject.toml constraints.txt
	@set -e; start=$$(date +%s); \
	if ! test -x $(BIN)/pip; then \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "ablation needs Python 3.11 or newer; '$(PYTHON)' is not. Name another: make PYTHON=python3.12 ..."; exit 1; }; \
	  $(PYTHON) -m venv $(VENV); \
	fi; \
	echo "Installing into $(VENV): about 3 GB of downloads, most of it PyTorch"; \
	$(PIP) install -qq --upgrade 'pip>=25.1'; \
	$(PIP) install -qq --constraint constraints.txt --editable .; \
	touch $@; echo "Installation: $$(($$(date +%s) - start)) s"

$(DEV): $(PACKAGE)
	@$(PIP) install -qq --constraint constraints.txt --group dev
	@touch $@
