# Two commands: `make run` opens the explorer, `make test` proves it. Both start from an empty machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8501
# folders and Hub ids, separated by commas, that readers may run and look into; `x#4` is its first 4 layers
SOURCES ?= $(KIMISCOPE_SOURCES)

.PHONY: run test check bench example sheet browser clean
.DEFAULT_GOAL := run

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.txt | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements.txt requirements-dev.txt requirements-oracles.txt | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements-dev.txt
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps --upgrade --target $(VENV)/oracles -r requirements-oracles.txt
	@touch $(VENV)/.run $@

run: $(VENV)/.run
	$(BIN)/python -m app.reader
	KIMISCOPE_SOURCES="$(SOURCES)" $(BIN)/python -m streamlit run streamlit_app.py --server.port $(PORT)

browser:
	@$(PYTHON) tests/browser/install.py

# the browser tests measure times, so they have the machine to themselves
test: $(VENV)/.dev browser
	PYTHON=$(BIN)/python ./check --fast
	$(BIN)/python -m pytest -n 2 --dist loadfile --ignore tests/browser
	$(BIN)/python -m pytest tests/browser

check: $(VENV)/.dev
	PYTHON=$(BIN)/python ./check

bench: $(VENV)/.dev
	for bench in prefill decode recording; do $(BIN)/python tests/bench/$$bench.py; done

example: $(VENV)/.run
	$(BIN)/python -m app.example

# every page of the reading half, at three widths and in both themes, as pictures to look at
sheet: $(VENV)/.dev browser
	$(BIN)/python tests/browser/contact_sheet.py build/sheet

clean:
	rm -rf $(VENV) build .pytest_cache .ruff_cache
