"""Texts that people write, changed and damaged: manifests and configurations."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import yaml

from support.fuzz_values import odd_text, odd_value, places

CONFIG: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaseDuration": "15s", "renewDeadline": "10s", "resourceName": "a"},
    "parallelism": 16,
    "percentageOfNodesToScore": 30,
    "podMaxBackoffSeconds": 10,
    "clientConnection": {"qps": 50.5, "burst": 100},
    "profiles": [
        {
            "schedulerName": "a",
            "plugins": {
                "multiPoint": {"disabled": [{"name": "ImageLocality"}]},
                "score": {"enabled": [{"name": "NodeAffinity", "weight": 3}]},
            },
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "RequestedToCapacityRatio",
                            "resources": [{"name": "cpu", "weight": 2}],
                            "requestedToCapacityRatio": {
                                "shape": [
                                    {"utilization": 0, "score": 0},
                                    {"utilization": 100, "score": 10},
                                ]
                            },
                        }
                    },
                },
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultingType": "List",
                        "defaultConstraints": [
                            {
                                "maxSkew": 1,
                                "topologyKey": "zone",
                                "whenUnsatisfiable": "ScheduleAnyway",
                            }
                        ],
                    },
                },
                {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 5}},
                {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 10}},
                {
                    "name": "NodeAffinity",
                    "args": {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
                                ]
                            }
                        }
                    },
                },
                {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 60}},
            ],
        }
    ],
    "extenders": [
        {
            "urlPrefix": "http://127.0.0.1:1/x",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "httpTimeout": "5s",
            "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
            "tlsConfig": {"insecure": True},
        }
    ],
}


POLICY: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Policy",
    "predicates": [
        {"name": "GeneralPredicates"},
        {"name": "MaxEBSVolumeCount"},
        {"name": "zone", "argument": {"serviceAffinity": {"labels": ["zone"]}}},
        {"name": "ssd", "argument": {"labelsPresence": {"labels": ["ssd"], "presence": True}}},
    ],
    "priorities": [
        {"name": "LeastRequestedPriority", "weight": 1},
        {
            "name": "ratio",
            "weight": 2,
            "argument": {
                "requestedToCapacityRatioArguments": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
                    "resources": [{"name": "cpu", "weight": 3}],
                }
            },
        },
        {"name": "spread", "weight": 3, "argument": {"serviceAntiAffinity": {"label": "zone"}}},
    ],
    "extenders": [CONFIG["extenders"][0] | {"httpTimeout": 5_000_000_000}],
    "hardPodAffinitySymmetricWeight": 10,
    "alwaysCheckAllPredicates": True,
}

AUDIT_POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "None",
            "users": ["system:kube-scheduler"],
            "verbs": ["get", "watch"],
            "resources": [{"group": "", "resources": ["pods", "nodes/status"]}],
        },
        {"level": "Request", "userGroups": ["staff"], "namespaces": ["default"]},
        {"level": "Metadata"},
    ],
}

DAMAGE = (
    "*a", "&a ", "!!python/object:os.system ", "!!binary ", "<<: ", "? ", "- ", "\t", "\x00", "{",
    "[" * 200, "'", "\n---\n", "---", "...", "%YAML 9.9\n", "\ufeff", "\ud800", "1e999", "!!set ",
    "!!omap ", "!!int x", "!!float .", "!!timestamp 0", "0o9", ".inf", "1_0", "|\n",
)  # fmt: skip


def changed(document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A copy with odd values, keys and shapes in a few places."""
    result = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 4))):
        holder, key = rng.choice(list(places(result)))
        chance = rng.random()
        if chance < 0.6:
            holder[key] = odd_value(rng)
        elif chance < 0.75 and isinstance(holder, dict):
            holder[odd_text(rng)] = odd_value(rng)
        elif chance < 0.9:
            holder[key] = [holder[key]] * rng.choice((1, 3, 50))
        else:
            del holder[key]
        if not result:
            break
    return result


def configuration(rng: random.Random) -> str:
    """A configuration that schedulers may be able to go on with, as text.

    Without what cannot change, and mostly for the pods that there are. Without extenders: an
    extender that does not run is no fault of what is attacked.
    """
    document = {key: CONFIG[key] for key in ("apiVersion", "kind", "percentageOfNodesToScore")}
    profiles = copy.deepcopy(CONFIG["profiles"])
    if rng.random() < 0.8:
        profiles[0]["schedulerName"] = "default-scheduler"
    document["profiles"] = profiles
    text = text_of(document if rng.random() < 0.3 else changed(document, rng), rng)
    return text.encode("utf-8", "replace").decode()


def text_of(document: dict[str, Any], rng: random.Random) -> str:
    """A document as YAML or JSON, sometimes damaged."""
    if rng.random() < 0.5:
        text = json.dumps(document)
    else:
        text = yaml.safe_dump(document, allow_unicode=rng.random() < 0.5)
    while rng.random() < 0.4:
        at = rng.randrange(len(text) + 1)
        inserted = rng.choice(DAMAGE)
        text = text[:at] + inserted + text[at + rng.choice((0, 0, 1, 40)) :]
    return text
