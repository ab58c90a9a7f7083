# make demo   run all benchmarks on the bundled samples against the demo server (no network, no key)
# make test   run the tests; on Debian, as root, installs Chromium for the browser tests first
# make lint   check style and format
# make bench  measure speed and memory on a small set, in under two minutes; make bench-full on the full size
# make clean  remove what these made
# Each sets up .venv first, once, and again when pyproject.toml changes. PYTHON=python3.12 chooses another Python.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: demo test lint bench bench-full install clean
.DEFAULT_GOAL := demo

demo: $(READY)
	@$(RUN) -m lm_eval_tasks.demo

test: $(READY)
	@scripts/install_system_packages.sh
	@$(RUN) -m pytest -q

# A target for the tests of an extra goes here (environment of its own, as $(READY) has it).

lint: $(READY)
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

bench: $(READY)
	@$(RUN) bench/run.py

bench-full: $(READY)
	@$(RUN) bench/run.py --full

install: $(READY)

$(READY): pyproject.toml
	@if [ ! -x $(VENV)/bin/pip ]; then \
	  echo "Making $(VENV) with $$($(PYTHON) --version)"; \
	  $(PYTHON) -m venv $(VENV) || { echo "python3 needs its venv module (Debian: python3-venv)" >&2; exit 1; }; \
	fi
	@printf 'Installing the pack and lm-eval into $(VENV), which can take some minutes '
	@$(RUN) -m pip install --disable-pip-version-check --progress-bar off --editable '.[test]' 2>&1 \
	  | tee $(VENV)/install.log \
	  | while read -r word rest; do case $$word in Collecting|Installing) printf .;; esac; done \
	  || { echo; tail -n 30 $(VENV)/install.log >&2; exit 1; }
	@echo ' done'
	@touch $@

clean:
	rm -rf $(VENV) out build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .grimp_cache
