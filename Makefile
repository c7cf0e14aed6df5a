# make demo: set up and see ReMP learn. make test: set up and run the tests. make check: format, lint, types, tests.
# make docs: build the documentation site. make fuzz: try damaged files.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
S3 := .venv-s3/.ready

.PHONY: demo test test-slow fuzz s3-server lint check format docs clean

demo: $(READY)
	$(BIN)/remp demo

test: $(READY) $(S3)
	$(BIN)/python -m pytest

test-slow: $(READY) $(S3)
	$(BIN)/python -m pytest -m slow

# Damaged files for every reader, with limits on time and memory: 30,000 of them in ten minutes.
fuzz: $(READY)
	$(BIN)/python tests/fuzz/run.py

# The S3 and GCS servers that tests of object storage talk to. Where they cannot be installed, those skip.
s3-server: $(S3)

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint $(S3)
	$(BIN)/python -m pytest --cov --cov-report=term:skip-covered --cov-fail-under=94

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Examples are run, warnings are errors, links within the site are checked. Sphinx needs Python 3.11.
docs: $(VENV)/.docs-ready
	rm -rf docs/_build docs/api/generated
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --conf-dir docs --builder html --fail-on-warning --keep-going --quiet . docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html
	@echo "Open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) .venv-s3 build dist src/*.egg-info docs/_build docs/gallery docs/api/generated

# Everything is installed once; a change of the lock file or of pyproject.toml installs anew.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "remp needs Python 3.10 or newer, $(PYTHON) is $$($(PYTHON) --version): run make PYTHON=python3.11"; exit 1; }
	@echo "Setting up $(VENV) (once; some minutes, about 1 GB)"
	@$(PYTHON) -m venv $(VENV) || { echo "python3 has no venv module; on Debian or Ubuntu: apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

$(S3): tests/s3-server.lock
	@$(PYTHON) -m venv .venv-s3
	@.venv-s3/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/s3-server.lock \
		|| echo "no S3 and GCS servers: the tests that need them will skip"
	@touch $(S3)

$(VENV)/.docs-ready: $(READY) requirements-docs.lock
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "the site is built with Sphinx, which needs Python 3.11 or newer"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-docs.lock
	@touch $@
