# The README's commands. `make demo` and `make test` need a Python >= 3.11 and a package index, nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: demo test test-all lint clean

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[hopper,cdna,dev]'
	touch $@

demo: $(STAMP)  ## emit and compile one GEMM for the H200 on this CPU; print the plan and the instruction evidence
	$(BIN)/kgen emit specs/gemm_bf16.yaml --target h200 -o build/demo
	$(BIN)/kgen solve specs/gemm_bf16.yaml --target h200 --top 5
	$(BIN)/kgen check build/demo --compile-only

test: $(STAMP) lint  ## everything that needs no GPU
	$(BIN)/kgen emit --all --check
	$(BIN)/python -m pytest -n $(JOBS) -m 'not gpu and not slow'

test-all: test  ## what takes longer, too: random products emitted, legal candidates and points outside of the rules compiled
	$(BIN)/python -m pytest -n $(JOBS) -m 'slow and not gpu' || test $$? -eq 5
	$(BIN)/python tests/gpu/random_gemms.py --dry-run --processes $(JOBS)
	$(BIN)/python tests/gpu/soundness.py --dry-run --processes $(JOBS)
	$(BIN)/python tests/gpu/soundness.py --converse --processes $(JOBS)
	$(BIN)/python tests/cdna/soundness.py --processes $(JOBS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

clean:
	rm -rf $(VENV) build dist
