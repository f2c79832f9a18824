# Everything runs from the virtual environment in .venv.
PYTHON ?= .venv/bin/python
PROTOS := protos/podsched/v1/objects.proto protos/podsched/v1/api.proto protos/podsched/v1/frames.proto
PROTOC := $(PYTHON) -m grpc_tools.protoc -I protos

.PHONY: proto check-proto

# Generates the message classes and the gRPC stubs; they are committed.
proto:
	$(PROTOC) --python_out=sched --pyi_out=sched $(PROTOS)
	$(PROTOC) --grpc_python_out=sched protos/podsched/v1/api.proto

# Fails when the committed code is not what the protos generate.
check-proto:
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT \
		&& $(PROTOC) --python_out=$$fresh --pyi_out=$$fresh $(PROTOS) \
		&& $(PROTOC) --grpc_python_out=$$fresh protos/podsched/v1/api.proto \
		&& diff -r --exclude=__init__.py --exclude=__pycache__ $$fresh/podsched/v1 sched/podsched/v1 \
		&& echo "generated code is up to date"
