PYTHON ?= python3
BIN := .venv/bin
EVERYTHING := .venv/.installed
DEMO := .venv/.installed-demo
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: setup setup-browser demo test test-slow lint format docs figures redraw benchmark clean

setup: $(EVERYTHING)

# Where Python comes without the venv module (Debian ships it apart), virtualenv does the same.
$(BIN)/python:
	@$(PYTHON) -m venv .venv 2>/dev/null || { rm -rf .venv; \
	  $(PYTHON) -m pip install --quiet --target .bootstrap virtualenv && \
	  PYTHONPATH=.bootstrap $(PYTHON) -m virtualenv --quiet .venv; }

# Everything includes what the demo needs, so that the demo installs nothing afterwards.
$(EVERYTHING): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[dev,docs]'
	@touch $(EVERYTHING) $(DEMO)

$(DEMO): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[gym,plots]'
	@touch $(DEMO)

# A browser for the tests of reports. Without the right to install it a line says so, and those tests
# are skipped, unless CI or MDPNEWTON_BROWSER=required is set.
setup-browser:
	@for name in chromium chromium-browser google-chrome chrome; do \
	    command -v $$name > /dev/null && exit 0; done; { \
	  if [ "$$(id -u)" = 0 ]; then sudo=; elif command -v sudo > /dev/null; then sudo='sudo -n'; \
	  else echo 'setup-browser: install Chromium as root'; exit 0; fi; \
	  command -v apt-get > /dev/null || { echo 'setup-browser: install Chromium'; exit 0; }; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { $$sudo apt-get update -qq && \
	    $$sudo apt-get install -y -qq --no-install-recommends chromium; } > /dev/null \
	  || echo 'setup-browser: Chromium could not be installed'; }

demo: $(DEMO)
	$(BIN)/mdpnewton train cartpole --transitions 8000 --out runs/demo
	$(BIN)/mdpnewton evaluate runs/demo --render

test: setup
	$(BIN)/python -m pytest -n 2

test-slow: setup
	XLA_FLAGS= $(BIN)/python -m pytest -n 2 -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

benchmark: setup
	$(BIN)/python benchmarks/dense_terms.py
	$(BIN)/python benchmarks/diagonal.py
	$(BIN)/python benchmarks/sparse_grid.py
	$(BIN)/python benchmarks/simulators.py
	$(BIN)/python benchmarks/baselines.py
	$(BIN)/python benchmarks/cg.py
	$(BIN)/python benchmarks/sampled_directions.py
	$(BIN)/python benchmarks/estimates.py
	$(BIN)/python benchmarks/linear_gaussian.py
	$(BIN)/python benchmarks/controllers.py
	$(BIN)/python benchmarks/growing.py
	$(BIN)/python benchmarks/from_function.py
	$(BIN)/python benchmarks/tetris.py
	$(BIN)/python benchmarks/ball_in_cup.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/acting.py

clean:
	rm -rf .venv .bootstrap site .pytest_cache .mypy_cache .ruff_cache

# The results and figures that the documentation shows, or those parts of them that are named:
# make figures ONLY='cartpole hallway'. The same command goes on after an interruption.
figures: setup
	$(BIN)/python tools/figures.py $(ONLY)

# The same figures from the results that are there: nothing is run again.
redraw: setup
	find docs/results -name config.json -printf '%h\n' | sort | while read -r run; do \
	  $(BIN)/mdpnewton report $$run --figures --out $$(mktemp -d)/report.html || exit 1; done
