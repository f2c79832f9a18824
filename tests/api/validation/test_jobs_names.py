"""The name of a Job begins the host names of its pods, if they have indexes."""

from __future__ import annotations

import pytest

from podsched.api.objects import copy_of
from podsched.api.validation import validate
from support.jobs import job


@pytest.mark.parametrize("name", ["my.job", "j" * 59])
def test_a_job_whose_pods_could_have_no_host_names_is_refused(name: str) -> None:
    item = job(name, completionMode="Indexed", completions=10_001)
    [error] = validate("Job", item)
    assert error.path == "metadata.name"
    assert f"will not able to create pod with invalid DNS label: {name}-10000" in str(error)


def test_without_indexes_pods_have_other_names() -> None:
    assert not validate("Job", job("my.job", completions=11))


def test_a_job_that_is_stored_already_can_be_changed() -> None:
    """Kubernetes checks it at creation alone, too."""
    item = job("my.job", completionMode="Indexed", completions=11)
    changed = copy_of(item)
    changed.spec.suspend = True
    assert not validate("Job", changed, item)
