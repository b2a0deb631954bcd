# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint unit slow sweep bench ulp clean

demo: $(READY)
	$(BIN)/python examples/compare_flow_matching.py
	$(BIN)/python examples/opmath.py
	$(BIN)/python examples/train_llama.py

test: lint
	$(BIN)/pytest -n 2 --dist loadgroup -m 'not slow'

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/pytest -n 2 -m 'not slow' tests/unit tests/repo tests/messages

slow: $(READY)           # the whole of what `make test` samples
	$(BIN)/pytest -n 2 -m slow

sweep: $(READY)          # the whole OpInfo database; writes docs/status.md and docs/status-device.md
	$(BIN)/python -m tests.ops.sweep
	$(BIN)/python -m tests.ops.sweep --device

bench: $(READY)
	$(BIN)/python bench/llama_step.py
	$(BIN)/python bench/device.py
	$(BIN)/python bench/drift.py

ulp: $(READY)            # every operation's error against float64; writes docs/evidence/ulp.md
	$(BIN)/python -m bench.ulp

# torch is pinned in constraints.txt: without the pin, pip may draw a CUDA build of several gigabytes.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "make: Python 3.11 or newer is needed; name it with PYTHON=..." >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[models,plot,test,lint]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
