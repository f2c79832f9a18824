"""Workloads in YAML, in the manner of scheduler_perf's performance-config.yaml.

A document has a ``name``, a ``workloadTemplate`` with a list of operations, and ``workloads``, each
with its ``params``. A count is a number or an expression of params: ``countParam: $pods // $size``.
Templates of nodes, pods and other objects stand in the file or in one of their own
(``podTemplatePath``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from podsched.api.manifest import ManifestError, load_documents
from podsched.config.errors import ConfigError, FieldError, invalid, not_supported, required
from podsched.config.model import ListOf, Model, decode, join
from podsched.lab.bench import ops
from podsched.lab.bench.ops import OpModel, Rate, Workload
from podsched.lab.bench.shapes import containers, node_status
from podsched.lab.bench.templates import Template, TemplateError, compile_expression
from podsched.lib.files import read_file

#: No benchmark on one machine needs more, and a typing error should not fill its memory.
MOST = 2_000_000
_MAX_BYTES = 4 << 20

Count = Annotated[int, Field(ge=0, le=MOST)]
Objects = dict[str, Any]


class _Counted(OpModel):
    count: Count | None = None
    count_param: str = ""


class _CreateNodes(_Counted):
    node_template: Objects | None = None
    node_template_path: str = ""


class _CreatePods(_Counted):
    collect_metrics: bool = False
    skip_wait_to_completion: bool = False
    namespace: str = "default"
    pod_template: Objects | None = None
    pod_templates: ListOf[Objects] = ()
    pod_template_path: str = ""
    pods_per_second: Rate = 0.0


class _CreateAny(_Counted):
    namespace: str = "default"
    template: Objects | None = None
    templates: ListOf[Objects] = ()
    template_path: str = ""


class _CreateResourceDriver(OpModel):
    driver_name: str = ""
    max_claims_per_node: Count | None = None
    max_claims_per_node_param: str = ""


class _Churn(OpModel):
    mode: str = "create"
    number: Annotated[int, Field(ge=1, le=MOST)] = 1
    interval_milliseconds: Annotated[int, Field(ge=1, le=3_600_000)] = 500
    template: Objects | None = None
    templates: ListOf[Objects] = ()
    template_paths: ListOf[str] = ()


class _Sized(Model):
    name: str = ""
    params: dict[str, Count] = Field(default_factory=dict)
    kube_scheduler: Rate = 0.0


class _TestCase(Model):
    name: str = ""
    workload_template: ListOf[Objects] = ()
    workloads: ListOf[_Sized] = ()
    default_pod_template: Objects | None = None


_MODELS: Mapping[str, type[OpModel]] = {
    "createNodes": _CreateNodes,
    "createPods": _CreatePods,
    "createAny": _CreateAny,
    "createResourceDriver": _CreateResourceDriver,
    "churn": _Churn,
    "deletePods": ops.DeletePods,
    "barrier": ops.Barrier,
    "sleep": ops.Sleep,
}
_NODE: Objects = {"status": node_status()}
_POD: Objects = {"spec": {"containers": containers()}}


def load_workloads(path: Path, params: Mapping[str, int] | None = None) -> list[ops.Workload]:
    """Return the workloads of a file; ``params`` replace those of the same name.

    Raises OSError, or ConfigError with all mistakes and the path of each.
    """
    return parse_workloads(read_file(path, _MAX_BYTES), path.parent, params, source=str(path))


def parse_workloads(
    text: str | bytes,
    directory: Path | None = None,
    params: Mapping[str, int] | None = None,
    source: str = "",
) -> list[ops.Workload]:
    """Return the workloads of a text; paths in it are relative to ``directory``.

    Raises ConfigError with all mistakes and the path of each.
    """
    try:
        documents = load_documents(text)
    except ManifestError as error:
        raise ConfigError(error.problems, source) from error
    found: list[FieldError] = []
    workloads: list[ops.Workload] = []
    if not documents:
        found.append(invalid("", None, "the file has no workload"))
    for number, document in enumerate(documents):
        reader = _Reader("" if len(documents) == 1 else f"[{number}]", directory, found)
        workloads += reader.workloads(document, params or {})
    if found:
        raise ConfigError(found, source)
    return workloads


class _Reader:
    """Makes workloads of one document; mistakes are appended to ``found``."""

    def __init__(self, path: str, directory: Path | None, found: list[FieldError]) -> None:
        self._path = path
        self._directory = directory
        self._found = found
        self._pod: Objects = _POD
        #: Of the workload that is made now.
        self._params: Mapping[str, int] = {}

    def workloads(
        self, document: Mapping[str, Any], params: Mapping[str, int]
    ) -> Iterator[ops.Workload]:
        case, _ = decode(_TestCase, document, self._path, self._found)
        if not case.name:
            self._found.append(required(join(self._path, "name")))
        if not case.workload_template:
            path = join(self._path, "workloadTemplate")
            self._found.append(required(path, "at least one operation"))
        self._pod = case.default_pod_template or _POD
        models = self._models(case)
        sizes = case.workloads or (_Sized(),)
        for at, size in enumerate(sizes):
            used = {**size.params, **{k: v for k, v in params.items() if k in size.params}}
            # The first size may go without a name of its own.
            alone = len(sizes) == 1 or not (size.name or at)
            name = case.name if alone else f"{case.name}/{size.name or at}"
            compared = size.kube_scheduler if used == size.params else 0.0
            self._params = used
            yield ops.Workload(name, tuple(self._ops(models)), used, compared)

    def _models(self, case: _TestCase) -> dict[int, OpModel]:
        models = {}
        for at, content in enumerate(case.workload_template):
            here = join(self._path, "workloadTemplate", at)
            opcode = content.get("opcode")
            if not isinstance(opcode, str) or opcode not in _MODELS:
                path = join(here, "opcode")
                self._found.append(
                    not_supported(path, opcode, _MODELS) if opcode else required(path)
                )
                continue
            models[at], _ = decode(_MODELS[opcode], content, here, self._found)
        return models

    def _ops(self, models: Mapping[int, OpModel]) -> Iterator[ops.Op]:
        nodes = 0
        for at, model in models.items():
            op = self._op(at, model, nodes)
            if isinstance(op, ops.CreateNodes):
                nodes += op.count
            yield op

    def _op(self, at: int, model: OpModel, nodes: int) -> ops.Op:
        here = join(self._path, "workloadTemplate", at)
        match model:
            case _CreateNodes():
                given = self._templates(here, model, "Node", _NODE)
                return ops.CreateNodes(self._count(here, model), given, nodes)
            case _CreatePods():
                return ops.CreatePods(
                    self._count(here, model),
                    self._templates(here, model, "Pod", self._pod),
                    "measured" if model.collect_metrics else f"pod-{at}",
                    model.namespace,
                    model.collect_metrics,
                    not model.skip_wait_to_completion,
                    model.pods_per_second,
                )
            case _CreateAny():
                given = self._templates(here, model)
                return ops.CreateAny(self._count(here, model), given, model.namespace)
            case _CreateResourceDriver():
                if not model.driver_name:
                    self._found.append(required(join(here, "driverName")))
                number, param = model.max_claims_per_node, model.max_claims_per_node_param
                devices = self._number(here, "maxClaimsPerNode", number, param)
                return ops.CreateResourceDriver(model.driver_name, nodes, devices)
            case _Churn():
                if model.mode not in ("create", "recreate"):
                    path = join(here, "mode")
                    self._found.append(not_supported(path, model.mode, ("create", "recreate")))
                given = self._templates(here, model)
                period = model.interval_milliseconds / 1000
                recreate = model.mode == "recreate"
                return ops.Churn(period, given, recreate, model.number, f"churn-{at}")
        return model

    def _count(self, here: str, model: _Counted) -> int:
        return self._number(here, "count", model.count, model.count_param)

    def _number(self, here: str, name: str, given: int | None, param: str) -> int:
        if given is not None:
            return given
        text = param.replace("$", "")
        if not text:
            path = join(here, name)
            if all(error.path != path for error in self._found):  # not told to be wrong already
                self._found.append(required(path, f"or {name}Param"))
            return 0
        path = join(here, f"{name}Param")
        try:
            number = compile_expression(text, self._params)(0)
        except ValueError as error:
            unknown = "no workload has a parameter of this name"
            why = unknown if text.isidentifier() else str(error)
            self._found.append(invalid(path, param, why))
            return 0
        if number > MOST:
            self._found.append(invalid(path, param, f"must be at most {MOST:,}"))
            return 0
        return max(0, number)

    def _templates(
        self, here: str, model: OpModel, kind: str = "", default: Objects | None = None
    ) -> tuple[Template, ...]:
        """Return the templates of an operation, or the default.

        Every field with "template" in its name has some; strings in them are names of files.
        """
        places: list[tuple[str, Objects]] = []
        for name, field in type(model).model_fields.items():
            value, path = getattr(model, name), join(here, field.alias or name)
            if "template" not in name or not value:
                continue
            several = {join(path, at): item for at, item in enumerate(value)}
            for place, item in (several if isinstance(value, tuple) else {path: value}).items():
                places += self._file(place, item) if isinstance(item, str) else [(place, item)]
        if places:
            made = (self._template(path, kind, document) for path, document in places)
            return tuple(template for template in made if template is not None)
        if default is not None:
            return (Template({"apiVersion": "v1", "kind": kind, **default}),)
        self._found.append(required(join(here, "template")))
        return ()

    def _file(self, path: str, name: str) -> Iterator[tuple[str, Objects]]:
        if self._directory is None:
            self._found.append(invalid(path, name, "there are no files here"))
            return
        try:
            documents = load_documents(read_file(self._directory / name, _MAX_BYTES))
        except OSError as error:
            self._found.append(invalid(path, name, error.strerror or str(error)))
        except ManifestError as error:
            self._found.append(invalid(path, name, str(error)))
        else:
            if not documents:
                self._found.append(invalid(path, name, "the file has no object"))
            yield from ((path, document) for document in documents)

    def _template(self, path: str, kind: str, document: Objects) -> Template | None:
        """Return a template that gives an object of the kind, the default version implied."""
        if kind:
            document = {"apiVersion": "v1", "kind": kind, **document}
        if kind and document["kind"] != kind:
            self._found.append(invalid(join(path, "kind"), document["kind"], f"must be {kind}"))
            return None
        try:
            template = Template(document, path, self._params)
            template.at(0)
        except TemplateError as error:
            self._found.append(invalid(error.path, error.value, error.reason))
        except ManifestError as error:
            for problem in error.problems:
                place = join(path, problem.path) if problem.path else path
                self._found.append(FieldError(place, problem.value, problem.reason))
        else:
            return template
        return None


def builtin_text() -> str:
    """Return the YAML of the built-in workloads."""
    return files("podsched.lab.bench").joinpath("workloads.yaml").read_text(encoding="utf-8")


@cache
def builtin_workloads() -> Mapping[str, Workload]:
    """Return the built-in workloads in their own sizes, by name."""
    return {workload.name: workload for workload in parse_workloads(builtin_text())}


def sized(name: str, params: Mapping[str, int]) -> Workload:
    """Return a built-in workload with other numbers; those that it does not have are left out."""
    found = parse_workloads(builtin_text(), params=params)
    return next(workload for workload in found if workload.name == name)
