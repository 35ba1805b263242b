# Everything runs in virtual environments made here: `make demo` in a fresh one, `make test` and `make lint` in .venv.
# CUDA=cuda12 takes the wheels of CUDA 12 instead of 13; PYTEST adds options, as in PYTEST="--device cuda".

PYTHON ?= python3
CUDA ?= cuda13
PYTEST ?= -n auto
DEMO := .venv-demo
BIN := .venv/bin

.PHONY: demo test lint hunt clean

demo:
	@echo "Making $(DEMO) and installing kernelpress with its $(CUDA) libraries (a minute or two) ..."
	@rm -rf $(DEMO)
	@$(PYTHON) -m venv $(DEMO)
	@$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check ".[$(CUDA)]"
	@$(DEMO)/bin/python examples/demo.py

test: .venv/ready
	$(BIN)/python -m pytest $(PYTEST)

lint: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

hunt: .venv/ready
	HYPOTHESIS_PROFILE=hunt $(BIN)/python -m pytest $(PYTEST) tests/test_groups.py

clean:
	rm -rf .venv $(DEMO) out dist build

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,$(CUDA)]"
	@touch $@
