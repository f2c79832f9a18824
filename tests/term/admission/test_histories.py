"""The past usage of LocalQueues, as their objects have it."""

from __future__ import annotations

import pytest

from podsched.api.objects import LocalQueue
from podsched.term.admission.histories import stored_history, weight_of


@pytest.mark.parametrize(
    ("cpu", "thousandths"), [("1500m", 1500.0), ("1e306", 2.0**63), ("1e400", 2.0**63)]
)
def test_past_usage_has_the_bounds_of_quota(cpu: str, thousandths: float) -> None:
    """Floats have others, beyond which they are infinite, or cannot be made at all."""
    item = LocalQueue()
    item.status.fair_sharing.admission_fair_sharing_status.consumed_resources["cpu"] = cpu
    assert stored_history(item).consumed == {"cpu": thousandths}


def test_a_weight_may_be_any_number_that_the_api_takes() -> None:
    item = LocalQueue()
    item.spec.fair_sharing.weight = "1e400"
    assert weight_of(item) == 2.0**63
