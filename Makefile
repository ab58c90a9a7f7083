# make demo   run all benchmarks on the bundled samples against the demo server (no network, no key)
# make test   run the tests; on Debian, as root, installs Chromium for the browser tests first
# make test-local   run the tests of models on this machine, in .venv-local with torch's CPU build (2 GB)
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

.PHONY: demo test test-local lint bench bench-full install clean
.DEFAULT_GOAL := demo

LOCAL_VENV := .venv-local
TORCH := torch==2.13.0

demo: $(READY)
	@$(RUN) -m lm_eval_tasks.demo

test: $(READY)
	@scripts/install_system_packages.sh
	@$(RUN) -m pytest -q --numprocesses auto --maxprocesses 8 --dist loadgroup

lint: $(READY)
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

bench: $(READY)
	@$(RUN) bench/run.py

bench-full: $(READY)
	@$(RUN) bench/run.py --full

test-local: $(LOCAL_VENV)/.ready
	@OMP_NUM_THREADS=1 $(LOCAL_VENV)/bin/python -m pytest -q tests/local

# torch first and alone, so that what needs it takes the one that is there
$(LOCAL_VENV)/.ready: pyproject.toml
	@[ -x $(LOCAL_VENV)/bin/pip ] || $(PYTHON) -m venv $(LOCAL_VENV)
	@echo 'Installing torch and transformers into $(LOCAL_VENV), which can take some minutes'
	@for what in '$(TORCH)' "--editable .[local,serving,test] mistral-common peft"; do \
	  $(LOCAL_VENV)/bin/python -m pip install --disable-pip-version-check --quiet $$what >$(LOCAL_VENV)/install.log 2>&1 \
	    || { tail -n 30 $(LOCAL_VENV)/install.log >&2; exit 1; }; \
	done
	@touch $@

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
	rm -rf $(LOCAL_VENV) $(VENV) out build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .grimp_cache
