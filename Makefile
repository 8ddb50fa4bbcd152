# Everything runs in .venv, made here. `make PYTHON=python3.12 test` takes another interpreter (3.11 or newer).
# Packages come through pip, which also finds a build of PyTorch that lies on this machine; it compiles none of them, since
# Python compiles what is imported.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile --constraint constraints.txt
EVERYTHING := dev,ray,ray-data,sklearn,lightgbm,torch,delta,lance,iceberg,demo

.PHONY: help demo test check format docs bench chaos coverage-study clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     evaluate real models on real flights, and print the verdicts (no torch, no ray)"
	@echo "make test     every check and every test"
	@echo "make check    formatting, lint, types and the import contract"
	@echo "make format   put the code into the one format"
	@echo "make docs     write what is generated, and run the examples of the documentation"
	@echo "make bench    throughput against a plain loop"
	@echo "make chaos    runs whose actors, nodes, drivers and store fail, on a real Ray cluster (a quarter of an hour)"
	@echo "make coverage-study  how often intervals hold the truth, on simulated users (ten minutes)"
	@echo "make clean    remove the environment and all that was made in it"

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "assay needs Python 3.11 or newer; name one: make PYTHON=python3.12")'
	@echo "Making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/demo: $(VENV)/made pyproject.toml constraints.txt
	@echo "Installing assay and what the demo needs (a minute or two, once)"
	@$(INSTALL) --editable '.[demo]'
	@$(BIN)/python demo/warm.py
	@touch $@

$(VENV)/everything: $(VENV)/made pyproject.toml constraints.txt
	@echo "Installing assay, every extra and the tools (a few minutes, once)"
	@$(INSTALL) --editable '.[$(EVERYTHING)]'
	@touch $@ $(VENV)/demo

demo: $(VENV)/demo
	@$(BIN)/python demo/flights.py
	@$(BIN)/assay run demo/eval.yaml --out demo/out/run || test $$? -eq 1 -o $$? -eq 3
	@cat demo/next.txt

test: check
	@$(BIN)/python -m pytest -n 2 --no-loadscope-reorder --durations=30 tests src docs README.md --doctest-modules --doctest-glob='*.md'

check: $(VENV)/everything
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/everything
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(VENV)/everything
	@$(BIN)/assay schema > docs/spec.schema.json
	@$(BIN)/python docs/make_spec_page.py > docs/spec.md
	@$(BIN)/python docs/make_metrics_page.py > docs/metrics.md
	@$(BIN)/python -m pytest src docs README.md --doctest-modules --doctest-glob='*.md'

bench: $(VENV)/everything
	@$(BIN)/python -m benchmarks.throughput

chaos: $(VENV)/everything
	@PYTHONPATH=tests $(BIN)/python -m chaos
	@$(BIN)/python -m pytest -m chaos tests

coverage-study: $(VENV)/everything
	@$(BIN)/python -m benchmarks.coverage

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache demo/out benchmarks/out
	find src tests demo benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
