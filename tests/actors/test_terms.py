"""The fingerprint by which a leader knows the actors that it would have made itself."""

from __future__ import annotations

from podsched.actors.terms import fingerprint_of
from podsched.config.plugin_args import InterPodAffinityArgs


def test_a_default_that_is_written_out_is_no_other_configuration() -> None:
    written = InterPodAffinityArgs(hard_pod_affinity_weight=1)
    assert fingerprint_of("a", written) == fingerprint_of("a", InterPodAffinityArgs())


def test_another_weight_is_another_configuration() -> None:
    heavier = InterPodAffinityArgs(hard_pod_affinity_weight=2)
    assert fingerprint_of("a", heavier) != fingerprint_of("a", InterPodAffinityArgs())
