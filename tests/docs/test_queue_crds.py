"""The CustomResourceDefinitions of queues in deploy/kubernetes/queues: run it to write them.

They are made of the messages, the entries of the kinds and the rules below, which are those of
Kueue that a schema can hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from podsched.api.columns import Show
from podsched.api.kind import Kind
from podsched.api.kinds import KINDS, QUEUE_KINDS
from podsched.v1 import objects_pb2

FILE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "queues" / "crds.yaml"
HEAD = "# Written by `make crds`: edit tests/docs/test_queue_crds.py.\n"
NAME = {
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
LABEL = {
    "maxLength": 316,
    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
}
AMOUNT = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "pattern": r"^[+]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3}|[numkMGTPE]|[KMGTPE]i)?$",
}
#: The version of Kueue's manifests that is served, too. Without a webhook the API server converts
#: nothing: an object keeps the fields that it was written with. So both versions have one schema,
#: and that of a ClusterQueue has the fields and values of both.
FORMER_VERSION = "v1beta1"
STOP = {"enum": ["None", "Hold", "HoldAndDrain"]}
SEARCH = {"enum": ["MayStopSearch", "TryNextFlavor", "Borrow", "Preempt"]}
EFFECT = {"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]}


def rule(text: str, message: str) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": text, "message": message}]}


def rules(*several: dict[str, Any]) -> dict[str, Any]:
    key = "x-kubernetes-validations"
    return {key: [each for one in several for each in one[key]]}


def no_limits(owner: str, has_one: str) -> list[dict[str, Any]]:
    return [
        rule(
            f"{has_one} || !has(self.resourceGroups) || self.resourceGroups.all(g, "
            f"g.flavors.all(f, f.resources.all(r, !has(r.{limit}))))",
            f"{limit} must be nil when {owner} is empty",
        )
        for limit in ("borrowingLimit", "lendingLimit")
    ]


HOST = "'kubernetes.io/hostname'"
LOWEST = f"[size(self) - 1].nodeLabel == {HOST}"
#: What the schema of a field says beside its type, by message and field; by message alone.
MORE: dict[str, dict[str, Any]] = {
    "ResourceFlavorSpec": rules(
        rule(
            "!has(self.topologyName) || (has(self.nodeLabels) && self.nodeLabels.size() >= 1)",
            "at least one nodeLabel is required when topology is set",
        ),
        rule(
            "!has(oldSelf.topologyName) || "
            "(has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
            "topologyName is immutable when topologyName is set",
        ),
    ),
    "ResourceFlavorSpec.nodeLabels": {"maxProperties": 8, "x-kubernetes-map-type": "atomic"},
    "ResourceFlavorSpec.nodeTaints": {"maxItems": 8},
    "ResourceFlavorSpec.tolerations": {
        "maxItems": 8,
        **rules(
            rule(
                "self.all(t, has(t.key) || (has(t.operator) && t.operator == 'Exists'))",
                "operator must be Exists when 'key' is empty, which means 'match all values and "
                "all keys'",
            ),
            rule(
                "self.all(t, !has(t.tolerationSeconds) || "
                "(has(t.effect) && t.effect == 'NoExecute'))",
                "effect must be 'NoExecute' when 'tolerationSeconds' is set",
            ),
            rule(
                "self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value))",
                "a value must be empty when 'operator' is 'Exists'",
            ),
        ),
    },
    "ResourceFlavorSpec.topologyName": NAME,
    "Taint": {"required": ["effect", "key"]},
    "Taint.key": LABEL,
    "Taint.effect": EFFECT,
    "Toleration.operator": {"enum": ["Equal", "Exists"]},
    "Toleration.effect": EFFECT,
    "ClusterQueueSpec": rules(
        *no_limits("cohort", "has(self.cohortName) || has(self.cohort)"),
        rule(
            "!has(self.cohort) || !has(self.cohortName)",
            "cohort is the former name of cohortName: set one of them",
        ),
    ),
    "CohortSpec": rules(*no_limits("parent", "has(self.parentName)")),
    "ClusterQueueSpec.resourceGroups": {"maxItems": 16, "x-kubernetes-list-type": "atomic"},
    "CohortSpec.resourceGroups": {"maxItems": 16, "x-kubernetes-list-type": "atomic"},
    "ClusterQueueSpec.cohortName": NAME,
    "CohortSpec.parentName": NAME,
    "ClusterQueueSpec.queueingStrategy": {"enum": ["StrictFIFO", "BestEffortFIFO"]},
    "ClusterQueueSpec.stopPolicy": STOP,
    "LocalQueueSpec.stopPolicy": STOP,
    "LocalQueueSpec.clusterQueue": {**NAME, **rule("self == oldSelf", "field is immutable")},
    "ResourceGroup": {
        "required": ["coveredResources", "flavors"],
        **rules(
            rule(
                "self.flavors.all(f, size(f.resources) == size(self.coveredResources))",
                "flavors must have the same number of resources as the coveredResources",
            )
        ),
    },
    "ResourceGroup.coveredResources": {"minItems": 1, "maxItems": 64},
    "ResourceGroup.flavors": {"minItems": 1, "maxItems": 64},
    "FlavorQuotas": {"required": ["name", "resources"]},
    "FlavorQuotas.name": NAME,
    "FlavorQuotas.resources": {"minItems": 1, "maxItems": 64},
    "FlavorResourceQuota": {"required": ["name", "nominalQuota"]},
    "FlavorFungibility": rule(
        "!has(self.preference) || "
        "(self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor')",
        "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor",
    ),
    "FlavorFungibility.whenCanBorrow": SEARCH,
    "FlavorFungibility.whenCanPreempt": SEARCH,
    "FlavorFungibility.preference": {
        "enum": ["BorrowingOverPreemption", "PreemptionOverBorrowing"]
    },
    "ClusterQueuePreemption": rule(
        "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort) && "
        "self.borrowWithinCohort.policy != 'Never')",
        "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
    ),
    "ClusterQueuePreemption.reclaimWithinCohort": {"enum": ["Never", "LowerPriority", "Any"]},
    "ClusterQueuePreemption.withinClusterQueue": {
        "enum": ["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
    },
    "BorrowWithinCohort.policy": {"enum": ["Never", "LowerPriority"]},
    "FairSharing.weight": {"default": 1},
    "AdmissionScope": {"required": ["admissionMode"]},
    "AdmissionScope.admissionMode": {
        "enum": ["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]
    },
    "AdmissionChecksStrategy.admissionChecks": {"minItems": 1, "maxItems": 64},
    "AdmissionCheckStrategyRule": {"required": ["name"]},
    "AdmissionCheckStrategyRule.name": NAME,
    "AdmissionCheckStrategyRule.onFlavors": {"maxItems": 64},
    "WorkloadPriorityClass": {"required": ["value"]},
    "WorkloadPriorityClass.description": {"maxLength": 2048},
    "Topology": {"required": ["spec"]},
    "TopologySpec": {"required": ["levels"]},
    "TopologySpec.levels": {
        "minItems": 1,
        "maxItems": 16,
        "x-kubernetes-list-type": "atomic",
        **rules(
            rule(
                f"self == oldSelf || (self{LOWEST} && oldSelf{LOWEST.replace('self', 'oldSelf')})",
                "levels are mutable only when kubernetes.io/hostname is the lowest level both "
                "before and after the change",
            ),
            rule("size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0", "must be unique"),
            rule(
                f"size(self.filter(i, i.nodeLabel == {HOST})) == 0 || self{LOWEST}",
                "the kubernetes.io/hostname label can only be used at the lowest level of topology",
            ),
        ),
    },
    "TopologyLevel": {"required": ["nodeLabel"]},
    "TopologyLevel.nodeLabel": {"minLength": 1, **LABEL},
    **{
        f"{status}Status.conditions": {
            "maxItems": 16,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        }
        for status in ("ClusterQueue", "LocalQueue")
    },
    "Condition": {"required": ["type", "status"]},
}

#: Fields that only ``FORMER_VERSION`` had, by message.
FORMER_FIELDS: dict[str, dict[str, Any]] = {
    "ClusterQueueSpec": {
        "cohort": {"type": "string", **NAME},
        "admissionChecks": {"type": "array", "items": {"type": "string"}, "maxItems": 64},
    },
}


def schema_of(message: Any) -> dict[str, Any]:
    descriptor: Descriptor = message
    if descriptor.full_name == "google.protobuf.Struct":
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if descriptor.full_name == "google.protobuf.Timestamp":
        return {"type": "string", "format": "date-time"}
    properties = {
        field.json_name: field_schema(field, descriptor.name)
        for field in descriptor.fields
        if field.name != "metadata"
    }
    properties |= FORMER_FIELDS.get(descriptor.name, {})
    return {"type": "object", "properties": properties, **MORE.get(descriptor.name, {})}


def field_schema(field: FieldDescriptor, owner: str) -> dict[str, Any]:
    more = MORE.get(f"{owner}.{field.json_name}", {})
    message: Any = field.message_type
    if message is not None and message.GetOptions().map_entry:
        values = value_schema(message.fields_by_name["value"], is_amount(field))
        return {"type": "object", "additionalProperties": values, **more}
    value = value_schema(field, is_amount(field))
    return {"type": "array", "items": value, **more} if field.is_repeated else {**value, **more}


def is_amount(field: FieldDescriptor) -> bool:
    options: Any = field.GetOptions()
    return bool(options.Extensions[objects_pb2.format] == objects_pb2.FORMAT_QUANTITY)


def value_schema(field: FieldDescriptor, amount: bool) -> dict[str, Any]:
    if field.message_type is not None:
        return schema_of(field.message_type)
    if amount:
        return dict(AMOUNT)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return {"type": "string"}
    small = field.cpp_type == FieldDescriptor.CPPTYPE_INT32
    return {"type": "integer", "format": "int32" if small else "int64"}


def columns_of(kind: Kind) -> list[dict[str, Any]]:
    """The columns of Kueue, whose names lead to the fields."""
    specs = {"Cohort": "cohortName", "Strategy": "queueingStrategy", "ClusterQueue": "clusterQueue"}
    found = []
    for column in kind.columns:
        if column.kubectl is Show.NEVER or column.name in ("Name", "Age"):
            continue
        first, _, rest = column.name.partition(" ")
        text = specs.get(column.name)
        path = f".spec.{text}" if text else f".status.{first.lower()}{rest}"
        shown = {"name": column.name, "type": "string" if text else "integer"}
        shown["jsonPath"] = ".value" if column.name == "Value" else path
        found.append({**shown, **({"priority": 1} if column.kubectl is Show.WIDE else {})})
    return found


def add_defaults(kind: Kind, schema: dict[str, Any]) -> None:
    """Default values, and empty objects above them."""
    for path, value in kind.defaults.items():
        *above, name = path.split(".")
        message: Any = kind.message.DESCRIPTOR
        part = schema
        for each in above:
            field = message.fields_by_name[each]
            part = part["properties"][field.json_name]
            if each != "spec":
                part["default"] = {}
            message = field.message_type
        part["properties"][message.fields_by_name[name].json_name]["default"] = value


def definition(kind: Kind) -> dict[str, Any]:
    schema = schema_of(kind.message.DESCRIPTOR)
    schema["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        **schema["properties"],
    }
    add_defaults(kind, schema)
    version: dict[str, Any] = {
        "name": kind.api_version.partition("/")[2],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if kind.has_status:
        version["subresources"] = {"status": {}}
    if columns := columns_of(kind):
        version["additionalPrinterColumns"] = columns
    former = {**version, "name": FORMER_VERSION, "storage": False}
    names = {"plural": kind.plural, "singular": kind.name.lower(), "kind": kind.name}
    names |= {"listKind": f"{kind.name}List", "shortNames": [*kind.short_names]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
        },
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version, former],
        },
    }


class Plain(yaml.SafeDumper):
    """Without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text() -> str:
    documents = [definition(KINDS[name]) for name in QUEUE_KINDS]
    return HEAD + yaml.dump_all(documents, Dumper=Plain, sort_keys=False, width=120)


def test_the_definitions_are_made_of_the_messages() -> None:
    assert FILE.read_text() == text(), "run `make crds`"


def test_both_versions_of_a_kind_have_one_schema() -> None:
    """Else a field that one version stores could be lost in the other."""
    for document in yaml.safe_load_all(FILE.read_text()):
        stored, former = document["spec"]["versions"]
        assert (stored["storage"], former["storage"]) == (True, False)
        assert stored["schema"] == former["schema"]


def test_each_message_and_field_that_rules_are_for_exists() -> None:
    for name in MORE:
        message, _, field = name.partition(".")
        descriptor = getattr(objects_pb2, message).DESCRIPTOR
        assert not field or field in {each.json_name for each in descriptor.fields}, name


if __name__ == "__main__":
    FILE.write_text(text())
