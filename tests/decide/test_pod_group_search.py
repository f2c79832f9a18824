"""When a greedy pass proves that no placement of equal members exists."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from podsched.decide.pod_group_search import greedy_is_exact
from support.engine_world import pod
from support.plugin_world import info

CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}
VOLUME = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}]}


@pytest.mark.parametrize(("spec", "exact"), [({}, True), (CLAIM, False), (VOLUME, False)])
def test_a_claim_that_the_first_member_binds_to_its_node_proves_nothing_about_other_nodes(
    spec: dict[str, Any], exact: bool
) -> None:
    runtime = cast(Any, SimpleNamespace(reads_whole_pods=False))
    assert greedy_is_exact(runtime, [info(pod("a", spec))]) is exact
