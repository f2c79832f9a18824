"""Stored objects of the queues as the values that they decide upon."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from podsched.api import objects as o
from podsched.api.manifest import from_manifest
from podsched.queues.objects import (
    ClusterQueue,
    Fungibility,
    FungibilityPolicy,
    Policy,
    Preemption,
    ResourceGroup,
)
from podsched.queues.quota import Cohort, FlavorResource, Quota
from podsched.queues.stored import read_cluster_queue, read_cohort, read_flavor, read_levels

SEEDS = Path(__file__).parents[1] / "support" / "fuzz_seeds.yaml"


def seed(kind: str) -> Any:
    documents = yaml.safe_load_all(SEEDS.read_text())
    return from_manifest(
        next(each for each in documents if each["kind"] == kind and "kueue" in each["apiVersion"])
    ).message


def test_a_cluster_queue_is_read_whole() -> None:
    assert read_cluster_queue(seed("ClusterQueue")) == ClusterQueue(
        "research",
        "all",
        (ResourceGroup(frozenset({"cpu", "nvidia.com/gpu"}), ("a100",)),),
        {
            FlavorResource("a100", "cpu"): Quota(64_000, 32_000, 16_000),
            FlavorResource("a100", "nvidia.com/gpu"): Quota(8),
        },
        fungibility=Fungibility(
            FungibilityPolicy.TRY_NEXT, FungibilityPolicy.TRY_NEXT, preemption_over_borrowing=True
        ),
        preemption=Preemption(Policy.LOWER_OR_NEWER, Policy.ANY, True, 100),
        weight=Fraction(3, 2),
    )


def test_what_is_missing_is_read_as_its_default() -> None:
    item = o.ClusterQueue()
    item.metadata.name = "q"
    assert read_cluster_queue(item) == ClusterQueue("q")
    assert read_cohort(o.Cohort()) == Cohort("")


def test_cohorts_flavors_and_topologies_are_read() -> None:
    quotas = {FlavorResource("a100", "cpu"): Quota(16_000, 8_000, 24_000)}
    assert read_cohort(seed("Cohort")) == Cohort("all", "company", quotas, Fraction(3))
    flavor = read_flavor(seed("ResourceFlavor"))
    assert (flavor.name, flavor.labels) == ("a100", {"example.com/gpu": "a100"})
    assert [taint.effect for taint in flavor.taints] == ["NoSchedule"]
    assert [toleration.value for toleration in flavor.tolerations] == ["a100"]
    levels = ("example.com/block", "example.com/rack", "kubernetes.io/hostname")
    assert read_levels(seed("Topology")) == levels
