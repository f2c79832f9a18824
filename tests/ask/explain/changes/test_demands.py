"""What a pod gives up stays given up when a server has filled in its defaults."""

from __future__ import annotations

import pytest
import yaml

from podsched.api.manifest import apply_merge_patch
from podsched.api.pod_defaulting import default_pod_spec
from podsched.ask.explain.changes.demands import drop
from podsched.ask.explain.changes.question import Kind
from podsched.v1 import objects_pb2 as v1
from support.engine_world import container, pod
from support.whatif_world import node, world


@pytest.mark.parametrize("host_network", [False, True])
def test_a_pod_that_gives_up_a_host_port_fits_with_its_defaults(host_network: bool) -> None:
    spec = {"containers": [container(ports=[80])], "hostNetwork": host_network}
    placed, waiting = pod("placed", spec), pod("waiting", spec)
    placed.spec.node_name = "n"
    made = world([node("n"), placed, waiting])
    change = drop(made.question(made.pending()[0]), Kind.PORT)
    assert change is not None
    again = apply_merge_patch(waiting, yaml.safe_load(change.patch)).message
    assert isinstance(again, v1.Pod)
    default_pod_spec(again.spec)
    made = world([node("n"), placed, again])
    assert made.schedule(made.pending())[0].node_name == "n"
