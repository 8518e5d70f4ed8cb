# Everything happens in .venv, from locked versions with hashes. A stamp file is made only after its step succeeded, so that an
# interrupted run goes on where it stopped. Written for POSIX sh and GNU make from 3.81 on.

SHELL := /bin/sh
PYTHON ?=
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
MODEL := smollm2-135m
FUZZ_SECONDS := 1200
FUZZ_SEED :=
LOCKS := locks
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
CPU_INDEX := https://download.pytorch.org/whl/cpu
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
# Dependencies of what is locked are locked too, so that pip has nothing to resolve. Modules are compiled when they are
# first imported: most never are, and all of them would take 430 MB.
LOCKED := $(PIP) install --no-deps --no-compile --require-hashes
# What was compiled is kept, whatever the shell says: every process would compile all of torch and transformers again.
unexport PYTHONDONTWRITEBYTECODE
OURSELVES := $(PIP) install --no-deps --no-build-isolation -e .
TAKES := du -sk $(VENV) | awk '{ printf "== installed: $(VENV) takes %.2f GB (`make clean` removes it)\n", $$1 / 1048576 }'
# pip says nothing until it is done, which may take minutes: a dot every two seconds meanwhile, and a line's end.
DOTS = parent=$$$$; dotted() { \
	  ( trap 'exit 0' TERM; while sleep 2 >/dev/null 2>&1 && kill -0 $$parent 2>/dev/null; do \
	    printf . >&2; trap 'echo >&2; exit 0' TERM; done ) & \
	  dots=$$!; code=0; "$$@" || code=$$?; kill $$dots 2>/dev/null || :; wait $$dots 2>/dev/null || :; return $$code; };
# Short on purpose: a machine without that index should not wait for it.
BRIEF := --timeout 15 --retries 0

# Tests start hundreds of processes, each of which would compile all it imports; `make clean` removes what is kept.
COMPILED := PYTHONDONTWRITEBYTECODE=

# An environment whose Python has gone, or that was half made, is made anew.
VENV_WORKS := $(shell $(BIN)/python -c 'print("yes")' 2>/dev/null)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-all test-peers fuzz mutation check docs clean model FORCE

help: ## show this list
	@echo "leakmeter: make TARGET, with"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-10s %s\n", $$1, $$2 }'
	@echo "PYTHON=/path/to/python3 picks the Python (3.11 or newer)."

demo: $(VENV)/.installed-demo ## install, fetch the default model (93 MB), measure the example, write report.html
	@echo "== model: $(MODEL)"
	@$(BIN)/leakmeter models pull $(MODEL)
	@echo "== demo: measuring the example"
	@$(BIN)/leakmeter demo --html report.html

test: $(VENV)/.installed-test model ## install and run the tests, all but the long ones
	@echo "== tests: all but the long ones"
	@$(COMPILED) $(BIN)/python -m pytest -n 2 --dist loadfile -m "not long and not hub"

test-all: $(VENV)/.installed-dev model ## install and run the long tests too
	@echo "== tests: with the long ones"
	@$(COMPILED) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not hub"

test-peers: $(PEERS)/.installed ## install other packages, and test that files as they write them are read
	@echo "== tests: files that other packages write"
	@$(COMPILED) PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 LEAKMETER_PEERS=1 $(PEERS)/bin/python -m pytest -p no:xdist -m peers tests/data

fuzz: $(VENV)/.installed-test ## fuzz every reader for 20 minutes, or FUZZ_SECONDS
	@seed=$(FUZZ_SEED); [ -n "$$seed" ] || seed=$$(date +%s); \
	echo "== fuzzers: $(FUZZ_SECONDS) seconds, FUZZ_SEED=$$seed"; \
	LEAKMETER_FUZZ_SECONDS=$(FUZZ_SECONDS) LEAKMETER_FUZZ_SEED=$$seed $(BIN)/python -m pytest -p no:xdist tests/fuzz

mutation: $(VENV)/.installed-test ## break 500 places of the code that computes, and see whether tests notice (an hour and a half)
	@$(BIN)/python tests/mutants/sampled.py --sample 500 --seed 0

check: $(VENV)/.installed-dev ## lint, format check and types
	@echo "== ruff check"
	@$(BIN)/ruff check .
	@echo "== ruff format --check"
	@$(BIN)/ruff format --check .
	@echo "== mypy"
	@$(BIN)/mypy

docs: $(VENV)/.installed-dev ## build the documentation as pages, site/index.html
	@echo "== docs: site/index.html"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove the environments and what tools left behind; cached models and runs stay
	@echo "== clean: $(VENV), $(PEERS), build, dist, site, tool caches, report.html"
	@rm -rf $(VENV) $(PEERS) build dist site report.html .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Tests that need the model skip, visibly, without it: no reason to stop here.
model: $(VENV)/.installed-test
	@echo "== model: $(MODEL)"
	@$(BIN)/leakmeter models pull $(MODEL) || echo "$(MODEL) could not be fetched; the tests that need it will be skipped"

$(VENV)/.installed-demo: $(VENV)/.torch pyproject.toml $(LOCKS)/build.txt $(LOCKS)/base.txt
	@echo "== install: leakmeter and $$(grep -c '^[a-z]' $(LOCKS)/base.txt) packages that it needs, with the hashes of $(LOCKS)/"
	@$(DOTS) dotted $(LOCKED) -r $(LOCKS)/build.txt -r $(LOCKS)/base.txt $$(cat $(VENV)/.torch)
	@$(DOTS) dotted $(OURSELVES)
	@$(TAKES)
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed-demo $(LOCKS)/test.txt
	@echo "== install: $$(grep -c '^[a-z]' $(LOCKS)/test.txt) packages that its tests need"
	@$(DOTS) dotted $(LOCKED) -r $(LOCKS)/test.txt
	@$(TAKES)
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-test $(LOCKS)/dev.txt
	@echo "== install: $$(grep -c '^[a-z]' $(LOCKS)/dev.txt) packages of development tools"
	@$(DOTS) dotted $(LOCKED) -r $(LOCKS)/dev.txt
	@$(TAKES)
	@touch $@

# These packages ask for versions that others do not take: their environment goes before the one of development, and has
# what is not in that one, or there in another version.
$(PEERS)/.installed: $(VENV)/.installed-dev $(LOCKS)/peers.txt
	@echo "== install: $$(grep -c '^[a-z]' $(LOCKS)/peers.txt) packages that write files, in $(PEERS)"
	@$(BIN)/python -m venv --clear $(PEERS)
	@$(DOTS) dotted $(PEERS)/bin/python -m pip --disable-pip-version-check -qq install --no-deps --no-compile --require-hashes \
	  -r $(LOCKS)/peers.txt
	@of() { "$$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }; \
	  echo "import site; site.addsitedir('$$(of $(BIN)/python)')" > "$$(of $(PEERS)/bin/python)/zz-beside.pth"
	@touch $@

# The stamp says what else torch of PyPI needs. torch of its own index is smaller, and needs nothing else.
$(VENV)/.torch: $(VENV)/.made $(LOCKS)/torch-cpu.txt
	@$(DOTS) quiet() { "$$@" 2>/dev/null; }; \
	cpu() { dotted quiet $(LOCKED) $(BRIEF) -r $(LOCKS)/torch-cpu.txt "$$@"; }; \
	plain="-r $(LOCKS)/cuda.txt"; \
	if nvidia-smi >/dev/null 2>&1; then \
	  echo "== torch $(TORCH): NVIDIA driver found, with CUDA (gigabytes)"; \
	elif [ "$$(uname -s)" = Darwin ]; then \
	  echo "== torch $(TORCH)"; plain=; \
	else \
	  echo "== torch $(TORCH): no NVIDIA driver, CPU build"; \
	  if cpu || cpu --extra-index-url $(CPU_INDEX); then plain=; \
	  else echo "no CPU build within reach (tried $(CPU_INDEX)); taking the larger plain torch"; fi; \
	fi; \
	echo "$$plain" > $@

$(VENV)/.made: $(if $(VENV_WORKS),,FORCE)
	@bare=; for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	  if ! "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    if [ "$$python" = "$(PYTHON)" ]; then echo "PYTHON=$(PYTHON) is no Python 3.11 or newer; looking for another"; fi; \
	    continue; \
	  fi; \
	  if ! "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then bare=$$python; continue; fi; \
	  echo "== environment: $(VENV), $$("$$python" --version)"; \
	  "$$python" -m venv --clear $(VENV) && touch $@; exit; \
	done; \
	if [ -n "$$bare" ]; then echo "$$bare has no venv module; apt install python3-venv, then try again" >&2; \
	else echo "no Python 3.11 or newer found; install one, or name it: make PYTHON=/path/to/python3" >&2; fi; \
	exit 1

FORCE:
