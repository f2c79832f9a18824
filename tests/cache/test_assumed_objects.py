"""Assumed objects stand in for the informer's until it has others."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.cache.cache import Cache
from podsched.cache.trial import Trial
from podsched.framework.assumed_objects import AssumedObjects
from podsched.v1 import objects_pb2 as v1
from support.cache_world import service


def cluster_of(*names: str) -> tuple[Cache, AssumedObjects[v1.Service]]:
    cache = Cache()
    for name in names:
        cache.apply("Service", None, service(name))
    return cache, cache.cluster.assumed("Service")


def claim(uid: str) -> v1.ResourceClaim:
    return v1.ResourceClaim(metadata=v1.ObjectMeta(name="c", uid=uid))


def apps(services: AssumedObjects[v1.Service]) -> dict[str, str]:
    """What each service selects."""
    found = {name: services.get("default", name) for name in ("s", "t")}
    return {name: one.spec.selector["app"] for name, one in found.items() if one is not None}


def test_an_assumed_object_stands_in_for_the_informers() -> None:
    cache, services = cluster_of("s", "t")
    assert apps(services) == {"s": "a", "t": "a"}
    services.assume(service("s", "b"))
    assert services.get("default", "s") == service("s", "b")
    assert services.get("default", "t") == service("t")
    assert services.assumed() == [service("s", "b")]
    assert cache.cluster.get("Service", "default", "s") == service("s")
    assert services.get("elsewhere", "s") is None


def test_what_is_assumed_again_replaces_what_was() -> None:
    _, services = cluster_of("s")
    services.assume(service("s", "b"))
    services.assume(service("s", "c"))
    assert apps(services) == {"s": "c"}


def test_an_object_that_is_restored_is_the_informers_again() -> None:
    _, services = cluster_of("s")
    services.assume(service("s", "b"))
    services.restore("default", "s")
    services.restore("default", "never assumed")
    assert apps(services) == {"s": "a"}
    assert services.assumed() == []


def test_an_object_that_is_not_there_is_not_assumed() -> None:
    _, services = cluster_of()
    with pytest.raises(KeyError, match="Service default/s"):
        services.assume(service("s"))


def test_another_object_of_the_informer_ends_the_assumption() -> None:
    cache, services = cluster_of("s", "t")
    services.assume(service("s", "b"))
    services.assume(service("t", "b"))
    cache.apply("Service", service("s"), service("s", "new"))
    cache.apply("Service", service("t"), None)
    cache.apply("Service", None, service("t"))
    assert apps(services) == {"s": "new", "t": "a"}
    assert services.assumed() == []


@pytest.mark.parametrize("new", [None, claim("2")])
def test_an_object_that_is_gone_was_last_what_was_assumed_of_it(new: Any) -> None:
    cache = Cache()
    stored, assumed = claim("1"), claim("1")
    assumed.status.allocation.SetInParent()
    cache.apply("ResourceClaim", None, stored)
    cache.cluster.assumed("ResourceClaim").assume(assumed)
    (change,) = cache.apply("ResourceClaim", stored, new).changes
    assert (change.old, change.new) == (assumed, new)


def test_every_assumption_and_restoration_has_a_version_of_its_own() -> None:
    cache, services = cluster_of("s")
    seen = [(services.version, cache.cluster.stamp, cache.cluster.stamp_beside_pods)]
    for app in "bc":
        services.assume(service("s", app))
        seen.append((services.version, cache.cluster.stamp, cache.cluster.stamp_beside_pods))
    services.restore("default", "s")
    seen.append((services.version, cache.cluster.stamp, cache.cluster.stamp_beside_pods))
    for values in zip(*seen, strict=True):
        assert len(set(values)) == len(seen)
    services.restore("default", "s")
    assert services.version == seen[-1][0], "nothing was assumed any more"
    assert cache.cluster.version("Pod") == 0
    before = cache.cluster.version("Service")
    services.assume(service("s", "b"))
    assert cache.cluster.version("Service") == before, "others do not see it"


def test_a_trial_takes_assumptions_back_and_their_versions() -> None:
    cache, services = cluster_of("s", "t")
    services.assume(service("t", "b"))
    before = services.version, cache.cluster.stamp
    with Trial(cache):
        services.assume(service("s", "b"))
        services.restore("default", "t")
        assert apps(services) == {"s": "b", "t": "a"}
    assert apps(services) == {"s": "a", "t": "b"}
    assert (services.version, cache.cluster.stamp) == before
    with Trial(cache), Trial(cache) as inner:
        services.assume(service("s", "b"))
        inner.commit()
    assert apps(services) == {"s": "a", "t": "b"}
    with Trial(cache) as trial:
        services.assume(service("s", "b"))
        trial.commit()
    assert apps(services) == {"s": "b", "t": "b"}


def test_versions_come_back_where_a_plugin_restores_while_the_trial_is_rolled_back() -> None:
    cache, services = cluster_of("s", "t")
    before = services.version, cache.cluster.version("Service")
    with Trial(cache) as trial:
        trial.put("Service", service("t", "b"))
        services.assume(service("s", "b"))
        trial.on_undo(lambda: services.restore("default", "s"))
    assert apps(services) == {"s": "a", "t": "a"}
    assert (services.version, cache.cluster.version("Service")) == before


def test_an_object_of_the_informer_ends_what_a_trial_assumed() -> None:
    cache, services = cluster_of("s", "t")
    services.assume(service("t", "before"))
    with Trial(cache):
        services.assume(service("s", "b"))
        services.assume(service("t", "b"))
        for name in "st":
            cache.apply("Service", service(name), service(name, "new"))
        assert apps(services) == {"s": "new", "t": "new"}
    assert apps(services) == {"s": "new", "t": "new"}


def test_an_assumption_is_hidden_while_a_trial_has_another_object() -> None:
    cache, services = cluster_of("s")
    services.assume(service("s", "b"))
    with Trial(cache) as trial:
        trial.put("Service", service("s", "tried"))
        assert apps(services) == {"s": "tried"}
        assert services.assumed() == []
    assert apps(services) == {"s": "b"}


def test_a_copy_of_the_cluster_has_what_is_assumed_and_goes_its_own_way() -> None:
    cache, services = cluster_of("s")
    services.assume(service("s", "b"))
    copied = cache.copy().cluster.assumed("Service")
    assert apps(copied) == {"s": "b"}
    copied.restore("default", "s")
    assert (apps(copied), apps(services)) == ({"s": "a"}, {"s": "b"})


def test_a_new_object_is_assumed_until_the_informer_has_one_that_ends_it() -> None:
    cache, services = cluster_of()
    services.assume(service("s", "b"), lambda found: found.spec.selector["app"] == "b", is_new=True)
    assert apps(services) == {"s": "b"}
    cache.apply("Service", None, service("s", "created"))
    assert apps(services) == {"s": "b"}
    cache.apply("Service", service("s", "created"), service("s", "b"))
    assert services.assumed() == []
    cache.apply("Service", service("s", "b"), None)
    assert apps(services) == {}


def test_a_trial_takes_a_new_object_back() -> None:
    cache, services = cluster_of()
    with Trial(cache):
        services.assume(service("s", "b"), lambda found: True, is_new=True)
        assert apps(services) == {"s": "b"}
    assert apps(services) == {}
