"""Objects as a client would send them, for tests of the API server and its client."""

from __future__ import annotations

from podsched.api.objects import (
    AnyObject,
    Event,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ResourceQuota,
)
from podsched.v1 import api_pb2 as v1

LOCK = "kube-system/kube-scheduler"


def pod(name: str = "web", namespace: str = "default", **labels: str) -> Pod:
    """A small valid pod."""
    item = Pod()
    item.metadata.name = name
    item.metadata.namespace = namespace
    item.metadata.labels.update(labels)
    container = item.spec.containers.add(name="app", image="registry.example/app:1")
    container.resources.requests["cpu"] = "100m"
    return item


def node(name: str = "node-1") -> Node:
    """A node of 4 cpus."""
    item = Node()
    item.metadata.name = name
    item.status.allocatable.update({"cpu": "4", "memory": "32Gi", "pods": "110"})
    return item


def priority_class(name: str, value: int, *, default: bool = False) -> PriorityClass:
    """A PriorityClass."""
    item = PriorityClass(value=value, global_default=default)
    item.metadata.name = name
    return item


def budget(name: str, **labels: str) -> PodDisruptionBudget:
    """A budget of one unavailable pod for pods of these labels."""
    item = PodDisruptionBudget()
    item.metadata.name = name
    item.metadata.namespace = "default"
    item.spec.max_unavailable = "1"
    item.spec.selector.match_labels.update(labels)
    return item


def event(name: str) -> Event:
    """An Event about a pod."""
    item = Event(reason="Scheduled", type="Normal", message="assigned")
    item.metadata.name = name
    item.metadata.namespace = "default"
    item.involved_object.kind = "Pod"
    item.involved_object.namespace = "default"
    item.involved_object.name = "web"
    return item


def binding(name: str, node_name: str, uid: str = "") -> v1.Binding:
    """A binding of a pod of the default namespace."""
    return v1.Binding(namespace="default", name=name, uid=uid, node_name=node_name)


def names(items: list[AnyObject]) -> list[str]:
    """The names of objects."""
    return [item.metadata.name for item in items]


def quota(name: str = "limits", namespace: str = "default", **hard: str) -> ResourceQuota:
    """A quota; requests_cpu stands for requests.cpu."""
    item = ResourceQuota()
    item.metadata.name, item.metadata.namespace = name, namespace
    item.spec.hard.update({key.replace("_", "."): amount for key, amount in hard.items()})
    return item
