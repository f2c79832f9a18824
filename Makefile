# Everything runs from the virtual environment in .venv, which the targets make when it is missing.
SYSTEM_PYTHON ?= python3
PYTHON ?= .venv/bin/python
PROTOS := protos/podsched/v1/objects.proto protos/podsched/v1/api.proto protos/podsched/v1/decisions.proto protos/podsched/v1/scheduling.proto protos/podsched/v1/frames.proto
GRPC_PROTOS := protos/podsched/v1/api.proto protos/podsched/v1/scheduling.proto
# The names of packages, not of where they came from: everyone's own index is used to install.
LOCK := build/tools/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --no-header --no-config
PROTOC := $(PYTHON) -m grpc_tools.protoc -I protos
# Processes start often, and would compile all they import each time where bytecode is not kept.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-long test-newest scenarios check format bench proto check-proto roles crds lock wheel sbom clean

# Starts everything on this machine, schedules a workload, kills the leader on the way and reports.
demo: .venv/installed
	.venv/bin/sched demo

# The tests but those marked long, several at a time, since those with real processes wait for most of
# theirs. Property tests, models and fuzzers try a seventh of their examples; the slowest tests are
# named in the end.
test: .venv/installed-dev
	.venv/bin/pytest -n auto --durations=15 -m "not long"

# All tests, with all examples.
test-long: .venv/installed-dev
	.venv/bin/pytest -n auto --durations=15 --hypothesis-profile=thorough

# As test, with the newest versions that pyproject.toml permits, in an environment of their own.
test-newest:
	rm -rf build/newest
	$(SYSTEM_PYTHON) -m venv build/newest
	build/newest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	build/newest/bin/pytest -n auto --durations=15 -m "not long"

# The behaviour scenarios alone; SCENARIO_ROUNDS=3 runs all of them three times in a row,
# BACKEND=kubernetes through Kubernetes' REST API.
scenarios: .venv/installed-dev
	BACKEND=$(BACKEND) .venv/bin/pytest tests/scenarios

# Format, lint, types, layers, dead code, the form of modules and tests, generated code.
check: .venv/installed-dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/vulture
	.venv/bin/python -m pip check
	.venv/bin/pytest -q tests/architecture
	@$(MAKE) --no-print-directory check-proto

format: .venv/installed-dev
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

# The throughput of the basic workload; `.venv/bin/sched bench --help` has the others.
bench: .venv/installed
	.venv/bin/sched bench SchedulingBasic

.venv/bin/python:
	@$(SYSTEM_PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || \
		{ echo "podsched needs Python 3.11 to 3.14; name one with: make SYSTEM_PYTHON=python3.11" >&2; exit 1; }
	@$(SYSTEM_PYTHON) -m venv .venv || \
		{ rm -rf .venv; echo "this Python cannot make virtual environments (on Debian: apt install python3-venv)" >&2; exit 1; }

# $(call install,LOCK): installs what a lock says into .venv, each file checked against its hash. Wheels
# alone, since what has none for this Python would be compiled for minutes and then fail. With pip and
# not with something faster, since everyone's pip knows where they get packages from. The modules are
# compiled by all processors afterwards, which pip does one by one.
define install
@echo "installing what $(1) says into .venv"
@{ $(PIP) install --no-compile --no-deps --only-binary :all: --require-hashes -r $(1) \
	&& $(PIP) install --no-deps --no-build-isolation -e . ; } > .venv/pip.log 2>&1 || { $(SAY_WHY); exit 1; }
@.venv/bin/python -m compileall -qq -j 0 -x '/(ray/(data|llm|rllib|serve|train|tune)|tests?)/' .venv/lib || true
endef
PIP := .venv/bin/python -m pip --disable-pip-version-check --no-input
SAY_WHY = wheel=$$(sed -n 's/^ERROR: No matching distribution found for \([^ ]*\).*/\1/p' .venv/pip.log); \
	if tail -n 3 .venv/pip.log | grep -q 'after connection broken'; then said='pip reaches no package index'; \
	elif [ -n "$$wheel" ]; then said="no wheel of $$wheel fits $(THIS_PYTHON); make clean, then name a Python from 3.11 to 3.14: make SYSTEM_PYTHON=python3.13 $(MAKECMDGOALS)"; \
	else said=$$(grep -m 1 '^ERROR' .venv/pip.log); fi; \
	echo "cannot install podsched: $$said (all that pip said: .venv/pip.log)" >&2
THIS_PYTHON = $$(.venv/bin/python -c 'import platform as p; print("Python", p.python_version(), "on", p.system(), p.machine())')

# What the demo and a whole cluster need.
.venv/installed: .venv/bin/python pyproject.toml requirements.lock
	$(call install,requirements.lock)
	@touch $@

# What tests and checks need as well. The tests are compiled here, each once: all workers of a first run
# would compile each of them, which takes a minute of processor time.
.venv/installed-dev: .venv/bin/python pyproject.toml requirements-dev.lock
	$(call install,requirements-dev.lock)
	@ls -d tests/*/ | xargs -n 8 -P 2 .venv/bin/pytest --collect-only -qq > .venv/collect.log 2>&1 || true
	@touch $@ .venv/installed

# Locks the newest versions that fit, for every Python from 3.11 on: of all that development needs, and of
# what runs, which are the same where both have it.
lock: build/tools/installed
	$(LOCK) --extra dev --output-file requirements-dev.lock pyproject.toml
	$(LOCK) --extra embedded --extra build --constraints requirements-dev.lock --output-file requirements.lock pyproject.toml

# dist/: the wheel, and the sources from which the same wheel is built. By setuptools' own hooks, with the
# setuptools of the lock; what an earlier build left would go into the wheel.
wheel: .venv/installed
	rm -rf dist build/lib build/bdist.* && mkdir -p build
	@$(PYTHON) -c 'from setuptools import build_meta as b; b.build_sdist("dist"); b.build_wheel("dist")' \
		> build/wheel.log 2>&1 || { tail -n 5 build/wheel.log >&2; exit 1; }
	@ls dist/*

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
	$(PYTHON) protos/any_object.py > sched/podsched/v1/any_object.py

# Writes the table of roles in docs/security.md.
roles:
	$(PYTHON) tests/docs/test_roles.py

# Writes deploy/kubernetes/queues/crds.yaml.
crds:
	$(PYTHON) tests/docs/test_queue_crds.py

# Fails when the committed code is not what the protos generate.
check-proto:
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT \
		&& $(PROTOC) --python_out=$$fresh --pyi_out=$$fresh $(PROTOS) \
		&& $(PROTOC) --grpc_python_out=$$fresh $(GRPC_PROTOS) \
		&& $(PYTHON) protos/any_object.py > $$fresh/podsched/v1/any_object.py \
		&& diff -r --exclude=__init__.py --exclude=__pycache__ $$fresh/podsched/v1 sched/podsched/v1 \
		&& echo "generated code is up to date"

clean:
	rm -rf .venv build dist *.egg-info sched/*.egg-info
