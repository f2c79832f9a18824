# Everything runs from the virtual environment in .venv, which the targets make when it is missing.
SYSTEM_PYTHON ?= python3
PYTHON ?= .venv/bin/python
PROTOS := protos/podsched/v1/objects.proto protos/podsched/v1/api.proto protos/podsched/v1/decisions.proto protos/podsched/v1/scheduling.proto protos/podsched/v1/frames.proto protos/podsched/v1/pprof.proto
GRPC_PROTOS := protos/podsched/v1/api.proto protos/podsched/v1/scheduling.proto
# The names of packages, not of where they came from: everyone's own index is used to install.
LOCK := build/tools/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --no-header --no-config
PROTOC := $(PYTHON) -m grpc_tools.protoc -I protos
# Processes start often, and would compile all they import each time where bytecode is not kept.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-long scenarios check format bench proto check-proto lock locked sbom clean

# Starts everything on this machine, schedules a workload, kills the leader on the way and reports.
demo: .venv/installed
	.venv/bin/sched demo

# All tests, several at a time, since those with real processes wait for most of theirs. Property
# tests, models and fuzzers try a quarter of their examples; the slowest tests are named in the end.
test: .venv/installed-test
	.venv/bin/pytest -n auto --durations=15

# The same with all examples.
test-long: .venv/installed-test
	.venv/bin/pytest -n auto --durations=15 --hypothesis-profile=thorough

# The behaviour scenarios alone; SCENARIO_ROUNDS=3 runs all of them three times in a row,
# BACKEND=kubernetes through Kubernetes' REST API.
scenarios: .venv/installed-test
	BACKEND=$(BACKEND) .venv/bin/pytest tests/scenarios

# Format, lint, types, layers, dead code, the form of modules and tests, generated code.
check: .venv/installed-dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/vulture
	.venv/bin/pytest -q tests/architecture
	@$(MAKE) --no-print-directory check-proto

format: .venv/installed-dev
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

# The throughput of the basic workload; `.venv/bin/sched bench --help` has the others.
bench: .venv/installed
	.venv/bin/sched bench SchedulingBasic

.venv/bin/python:
	@$(SYSTEM_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "podsched needs Python 3.11 or later; name one with: make SYSTEM_PYTHON=python3.11" >&2; exit 1; }
	@$(SYSTEM_PYTHON) -m venv .venv || \
		{ rm -rf .venv; echo "this Python cannot make virtual environments (on Debian: apt install python3-venv)" >&2; exit 1; }

.venv/installed: .venv/bin/python pyproject.toml
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[embedded]'
	@touch $@

.venv/installed-test: .venv/bin/python pyproject.toml
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ .venv/installed

.venv/installed-dev: .venv/bin/python pyproject.toml
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ .venv/installed-test .venv/installed

# Makes .venv anew with the versions in requirements-dev.lock, each file checked against its hash. pip
# would compile 10,000 modules one by one; one that does not compile is needed by nobody.
locked:
	rm -rf .venv
	@$(MAKE) --no-print-directory .venv/bin/python
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-dev.lock
	-.venv/bin/python -m compileall -qq -j 0 .venv/lib
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	.venv/bin/python -m pip check
	@touch .venv/installed .venv/installed-test .venv/installed-dev

# Locks the newest versions that fit, for every Python from 3.11 on: of all that development needs, and of
# what runs, which are the same where both have it.
lock: build/tools/installed
	$(LOCK) --extra dev --output-file requirements-dev.lock pyproject.toml
	$(LOCK) --extra server --extra build --constraints requirements-dev.lock --output-file requirements.lock pyproject.toml

# build/sbom.json: what runs, as installed from the lock, in CycloneDX.
sbom: build/tools/installed build/locked/installed
	build/tools/bin/cyclonedx-py environment --output-reproducible --mc-type application \
		--pyproject pyproject.toml --output-file build/sbom.json build/locked

build/locked/installed: requirements.lock pyproject.toml
	rm -rf build/locked
	$(SYSTEM_PYTHON) -m venv build/locked
	build/locked/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	build/locked/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation .
	@touch $@

build/tools/installed:
	rm -rf build/tools
	$(SYSTEM_PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.5' 'cyclonedx-bom>=7'
	@touch $@

# Generates the message classes and the gRPC stubs; they are committed.
proto:
	$(PROTOC) --python_out=sched --pyi_out=sched $(PROTOS)
	$(PROTOC) --grpc_python_out=sched $(GRPC_PROTOS)

# Fails when the committed code is not what the protos generate.
check-proto:
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT \
		&& $(PROTOC) --python_out=$$fresh --pyi_out=$$fresh $(PROTOS) \
		&& $(PROTOC) --grpc_python_out=$$fresh $(GRPC_PROTOS) \
		&& diff -r --exclude=__init__.py --exclude=__pycache__ $$fresh/podsched/v1 sched/podsched/v1 \
		&& echo "generated code is up to date"

clean:
	rm -rf .venv build dist *.egg-info sched/*.egg-info
