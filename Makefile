# Every target makes the virtual environment it needs; nothing has to be installed by hand
# but Python 3.11 or newer. `make demo PYTHON=python3.12` picks another interpreter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check clean

demo: $(STAMP)
	$(BIN)/limen demo

test: $(STAMP)
	$(BIN)/limen samples --quiet
	$(BIN)/pytest

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(PYTHON) .ci/wheel.py

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "limen needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	@$(BIN)/python -m pip install --quiet 'pesq>=0.0.4' || \
		echo "pesq could not be built (it needs a C compiler): its tests will be skipped"
	touch $@

clean:
	rm -rf $(VENV) out dist .mypy_cache .pytest_cache .ruff_cache
