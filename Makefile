# make lock    set up, then resolve specs/mm-v2.9.toml from the real indexes into .scratch/locks
# make test    set up, then run the tests (PYTEST_ARGS="-k lock" for some)
# make help    the other targets

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup has-python lock test test-ci test-all release-check lint format docs man recipes bench lab
.PHONY: weight gpu-evidence clean
MAKEFLAGS += --no-print-directory

VENV    := .venv
STAMP   := $(VENV)/.ready
SPEC    ?= specs/mm-v2.9.toml
SCRATCH := .scratch/locks
PYTEST_ARGS ?=
RELEASE := tests/tools/test_publish.py check/tests/test_distribution.py \
	tests/docs/test_page_blocks.py::test_readme_with_the_wheel
# Hundreds of short processes: with this variable set, each would compile all that it imports. `setup` compiles the
# tests, since each of pytest's workers would do so by itself; a test that can't be collected, as without git, is theirs.
COMPILED := env -u PYTHONDONTWRITEBYTECODE

# The first Python >= 3.10 that can make virtual environments. 3.11 leads, because the development locks are for it.
PYTHON ?= $(shell for p in python3.11 python3 python3.14 python3.13 python3.12 python3.10; do \
	"$$p" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo "$$p" && break; done)

# Names the lock that fits a Python: py311-linux-64.
define DEV_TARGET
import platform, sys
subdirs = {("Linux", "x86_64"): "linux-64", ("Linux", "aarch64"): "linux-aarch64", ("Darwin", "arm64"): "osx-arm64"}
system = platform.system(), platform.machine()
print("py%d%d-%s" % (*sys.version_info[:2], subdirs.get(system, "-".join(system))))
endef
export DEV_TARGET

help:
	@echo 'make setup      a virtual environment in $(VENV), from the hash-checked lock locks/dev'
	@echo 'make lock       resolve $(SPEC) anew from the real indexes, into $(SCRATCH)'
	@echo 'make test       the tests that need neither network nor patience; PYTEST_ARGS="-k diff" for some'
	@echo 'make test-ci    those, the slow ones and those that ask real indexes: what CI runs for each commit'
	@echo 'make test-all   all tests but those that download several GB: what CI runs at night'
	@echo 'make release-check  what a release publishes, built and tried in fresh homes; a rehearsal of the tag'
	@echo 'make lint       ruff and mypy --strict'
	@echo 'make format     let ruff mend what it can'
	@echo 'make docs       the documentation site, into .scratch/site; any warning is an error'
	@echo 'make man        the man pages, into .scratch/man'
	@echo 'make recipes    recipes/ anew, where it differs; with OUT=DIR, all recipes of all specs, in DIR'
	@echo 'make bench      the benchmarks, each beside a peer'
	@echo 'make lab        answers and installs beside uv, pip and rattler: 90 minutes, resumes (LAB_ARGS=--help)'
	@echo 'make weight     lines of code, modules, words of docs, lines of recipes, lines over 120 characters'
	@echo "make gpu-evidence  proofs on a GPU with GPU_PYTHON's torch, into .scratch/gpu-evidence: no network, 8 minutes"
	@echo 'make clean      remove what these made'

setup: $(STAMP)

$(STAMP): pyproject.toml $(wildcard locks/dev/*/requirements.txt)
	@set -e; python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
		echo 'make: no Python >= 3.10 with venv found: install one (Debian: apt install python3-venv),' \
			'or make PYTHON=/path/to/it' >&2; \
		exit 1; \
	fi; \
	lock=locks/dev/$$("$$python" -c "$$DEV_TARGET")/requirements.txt; \
	"$$python" -m venv --clear $(VENV); \
	if [ -f "$$lock" ]; then \
		echo "make: installing $$lock into $(VENV), every hash checked (a minute or two, once)" >&2; \
		$(VENV)/bin/python -m pip install -qq --require-hashes --no-deps --requirement "$$lock"; \
		$(VENV)/bin/python -m pip install -qq --no-deps --no-build-isolation --editable .; \
	else \
		echo "make: WARNING: there is no $$lock" >&2; \
		echo 'make: WARNING: installing UNLOCKED development tools: newest versions, no hash checked' >&2; \
		$(VENV)/bin/python -m pip install -qq --editable '.[dev]'; \
	fi
	@$(COMPILED) $(VENV)/bin/python -m pytest -qq --collect-only -m '' >/dev/null 2>&1 || true
	@touch $@

has-python:
	@test -n "$(PYTHON)"

lock: $(STAMP)
	$(VENV)/bin/envspec lock $(SPEC) --upgrade --locks-dir $(SCRATCH)
	@echo 'make: the new locks are in $(SCRATCH); those in locks/ are as they were' >&2

test: $(STAMP)
	@$(COMPILED) $(VENV)/bin/python -m pytest -n auto --dist loadgroup $(PYTEST_ARGS)

test-ci:
	@$(MAKE) test PYTEST_ARGS="-m 'not huge and not nightly' $(PYTEST_ARGS)"

test-all:
	@$(MAKE) test PYTEST_ARGS="-m 'not huge' $(PYTEST_ARGS)"

release-check: $(STAMP)
	@$(MAKE) test PYTEST_ARGS="-m '' $(RELEASE)"

lint: $(STAMP)
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

format: $(STAMP)
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

docs: $(STAMP)
	$(VENV)/bin/python -m tools.reference --check
	$(VENV)/bin/python -m mkdocs build --strict --quiet

man: $(STAMP)
	$(VENV)/bin/python -m tools.reference --man .scratch/man

# recipes/ has a selection: check names what was exported there.
recipes: $(STAMP)
ifdef OUT
	@$(VENV)/bin/envspec export $(filter-out specs/dev.toml,$(wildcard specs/*.toml)) --format all -o $(OUT)
else
	@$(VENV)/bin/envspec check 2>&1 >/dev/null | sed -n 's|^hint: \(envspec export .*\)|$(VENV)/bin/\1|p' | sh -ex
endif

bench: $(STAMP)
	$(VENV)/bin/python -m bench

lab: $(STAMP)
	PYTHONPATH=tests $(VENV)/bin/python -m bench.lab $(LAB_ARGS)
	@$(VENV)/bin/python -m tools.reference

weight: has-python
	@$(PYTHON) tools/weight.py envspec tools check tests

# Not of .venv: the torch that the machine has. GPU_ARGS='--lock specs/mm-v2.9.toml:cu128-hopper' adds the lock's own.
GPU_PYTHON ?= python3
GPU_ARGS ?=
# It makes .venv first, for doctor, inspect and the cards' peaks; where no index answers, GPU_PYTHON may have these.
gpu-evidence:
	@[ -e $(STAMP) ] || PIP_RETRIES=0 PIP_DEFAULT_TIMEOUT=15 $(MAKE) setup || { rm -rf $(VENV); \
		echo 'make: no index answers: what envspec says is asked of $(GPU_PYTHON)' >&2; }
	$(GPU_PYTHON) bench/gpu_evidence.py -o .scratch/gpu-evidence $(GPU_ARGS)

clean:
	rm -rf $(VENV) .scratch .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
