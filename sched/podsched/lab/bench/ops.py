"""The operations of workloads, as in kube-scheduler's scheduler_perf.

Pure: ``runner`` carries them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from podsched.api.kinds import kind_of
from podsched.api.node_labels import HOSTNAME
from podsched.api.objects import AnyObject, Node, Pod, ResourceSlice
from podsched.config.model import Model
from podsched.lab.bench.templates import Template

#: (kind, namespace, name)
Reference = tuple[str, str, str]
Rate = Annotated[float, Field(ge=0, le=1e6, strict=False)]


@dataclass(frozen=True, slots=True)
class CreateNodes:
    """Create nodes, made from one or several templates in turn."""

    count: int
    templates: tuple[Template, ...]
    first: int = 0
    """Number of the first node, in names of nodes without a name."""

    def nodes(self, start: int, stop: int) -> list[Node]:
        nodes = []
        for index in range(start, min(stop, self.count)):
            node = _in_turn(self.templates, index)
            assert isinstance(node, Node)
            if not node.metadata.name:
                node.metadata.name = f"node-{self.first + index:05d}"
            node.metadata.labels.setdefault(HOSTNAME, node.metadata.name)
            nodes.append(node)
        return nodes


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create pods, made from one or several templates in turn, and wait until they are bound."""

    count: int
    templates: tuple[Template, ...]
    prefix: str
    namespace: str = "default"
    measured: bool = False
    wait: bool = True
    rate: float = 0.0
    """Pods per second, each with a call of its own; 0: as fast as possible."""

    def pods(self, start: int, stop: int) -> list[Pod]:
        pods = []
        for index in range(start, min(stop, self.count)):
            pod = _in_turn(self.templates, index)
            assert isinstance(pod, Pod)
            _identify(pod, self.namespace, f"{self.prefix}-{index}")
            pods.append(pod)
        return pods


@dataclass(frozen=True, slots=True)
class CreateAny:
    """Create ``count`` objects from each template."""

    count: int
    templates: tuple[Template, ...]
    namespace: str = "default"

    def objects(self) -> Iterator[AnyObject]:
        for index in range(self.count):
            yield from _of_each(self.templates, index, self.namespace, "object")


@dataclass(frozen=True, slots=True)
class CreateResourceDriver:
    """Publish devices on each of the first ``nodes`` nodes, which have names of their number."""

    driver: str
    nodes: int
    devices: int

    def slices(self) -> Iterator[ResourceSlice]:
        for index in range(self.nodes):
            node = f"node-{index:05d}"
            item = ResourceSlice()
            item.metadata.name = f"{node}-{self.driver}"
            spec = item.spec
            spec.driver, spec.node_name, spec.pool.name = self.driver, node, node
            spec.pool.generation = spec.pool.resource_slice_count = 1
            for number in range(self.devices):
                device = spec.devices.add(name=f"device-{number}")
                device.attributes["uuid"].string_value = f"{node}-{number}"
                device.attributes["model"].string_value = "bench"
                device.capacity["memory"].value = "80Gi"
            yield item


@dataclass(frozen=True, slots=True)
class Step:
    """The changes of one tick."""

    create: tuple[AnyObject, ...] = ()
    delete: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Churn:
    """Create objects, and delete them again, every ``period`` seconds until the workload ends.

    ``recreate``: at each tick, one object of each template is created or, if ``number`` of them
    have been, the oldest deleted or created again in turn.
    """

    period: float
    templates: tuple[Template, ...]
    recreate: bool = False
    number: int = 1
    prefix: str = "churn"

    def step(self, tick: int) -> Step:
        if not self.recreate:
            return Step(create=self._objects(tick))
        turn, slot = divmod(tick, self.number)
        objects = self._objects(slot + turn // 2 * self.number)
        if turn % 2 == 0:
            return Step(create=objects)
        return Step(delete=tuple(reference(item) for item in objects))

    def _objects(self, index: int) -> tuple[AnyObject, ...]:
        return tuple(_of_each(self.templates, index, "default", self.prefix))


class OpModel(Model):
    """An operation as it is written in a file. Of the following ones nothing is computed."""

    opcode: str = ""


class DeletePods(OpModel):
    """Delete the pods of a namespace that match a selector."""

    namespace: str = "default"
    label_selector: str = ""
    delete_pods_per_second: Rate = 0.0
    """0: at once."""
    skip_wait_to_completion: bool = False


class Barrier(OpModel):
    """Wait until all pods without scheduling gates are bound."""


class Sleep(OpModel):
    """Wait ``duration`` seconds."""

    duration: Annotated[float, Field(ge=0, le=3600, strict=False)] = 0.0


Op = CreateNodes | CreatePods | CreateAny | CreateResourceDriver | Churn | OpModel


@dataclass(frozen=True, slots=True)
class Workload:
    """Operations, one after another. ``params``: the numbers that they were made with.

    ``kube_scheduler``: pods/s of kube-scheduler v1.36 with API server and etcd on 2 cores; 0 if it
    was not measured.
    """

    name: str
    ops: tuple[Op, ...]
    params: Mapping[str, int] = field(default_factory=dict)
    kube_scheduler: float = 0.0

    @property
    def nodes(self) -> int:
        return sum(op.count for op in self.ops if isinstance(op, CreateNodes))

    @property
    def first(self) -> int:
        """Number of pods that are bound before the measurement."""
        return sum(op.count for op in self._pods() if not op.measured and op.wait)

    @property
    def pods(self) -> int:
        """Number of measured pods."""
        return sum(op.count for op in self._pods() if op.measured)

    def _pods(self) -> Iterator[CreatePods]:
        return (op for op in self.ops if isinstance(op, CreatePods))


def reference(item: AnyObject) -> Reference:
    """Return the reference of an object."""
    return kind_of(item).name, item.metadata.namespace, item.metadata.name


def _in_turn(templates: Sequence[Template], index: int) -> AnyObject:
    return templates[index % len(templates)].at(index)


def _of_each(
    templates: Sequence[Template], index: int, namespace: str, prefix: str
) -> Iterator[AnyObject]:
    for template in templates:
        item = template.at(index)
        _identify(item, namespace, f"{prefix}-{index}")
        yield item


def _identify(item: AnyObject, namespace: str, name: str) -> None:
    """Set the name and the namespace of an object if its template does not."""
    metadata = item.metadata
    if not metadata.name:
        metadata.name = metadata.generate_name + name if metadata.generate_name else name
        metadata.generate_name = ""
    if kind_of(item).namespaced and not metadata.namespace:
        metadata.namespace = namespace
