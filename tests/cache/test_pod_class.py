"""Which pods share a class, and what a class says."""

from __future__ import annotations

import gc
import os

from podsched.cache.pod_class import PodClasses, make_pod_info, relevant_spec
from podsched.v1 import objects_pb2 as v1
from support.cache_world import info, make_pod


def test_pods_of_one_template_share_a_class() -> None:
    classes = PodClasses()
    assert classes.intern(make_pod("a")) is classes.intern(make_pod("b"))


def test_binding_a_pod_does_not_change_its_class() -> None:
    classes = PodClasses()
    waiting = classes.intern(make_pod("a", labels={"app": "web", "tier": "front"}))
    bound = make_pod("a", labels={"app": "web", "tier": "front"}, node="node-1")
    before = bound.SerializeToString(deterministic=True)
    assert classes.intern(bound) is waiting
    assert bound.SerializeToString(deterministic=True) == before


def test_interning_bound_pods_keeps_no_memory_of_them() -> None:
    classes = PodClasses()
    bound = make_pod("a", node="node-1")
    bound.spec.containers[0].env.add(name="PADDING", value="x" * 2_000)
    classes.intern(bound)
    before = _resident_bytes()
    for _ in range(20_000):
        classes.intern(bound)
    assert _resident_bytes() - before < 10_000_000


def _resident_bytes() -> int:
    """What this process occupies, the arenas of messages included, which Python does not see."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_what_no_decision_depends_on_does_not_split_a_class() -> None:
    classes = PodClasses()
    plain = make_pod("a")
    dressed = make_pod("b")
    spec = dressed.spec
    spec.hostname, spec.subdomain, spec.service_account_name = "b", "svc", "robot"
    spec.containers[0].env.add(name="POD", value="b")
    spec.containers[0].volume_mounts.add(name="kube-api-access-x7", mount_path="/run")
    spec.containers[0].ports.add(container_port=80)
    spec.volumes.add(name="kube-api-access-x7").projected.SetInParent()
    dressed.status.phase = "Running"
    dressed.status.container_statuses.add(name="main", ready=True, restart_count=3)
    assert classes.intern(plain) is classes.intern(dressed)


def test_the_spec_of_a_class_keeps_what_decisions_depend_on() -> None:
    pod = make_pod("a", host_port=80, priority=7)
    pod.spec.containers[0].ports.add(container_port=9)
    pod.spec.volumes.add(name="cfg").config_map.SetInParent()
    pod.spec.volumes.add(name="data").persistent_volume_claim.claim_name = "data"
    pod.spec.volumes.add(name="more").persistent_volume_claim.claim_name = "more"
    spec = PodClasses().intern(pod).spec
    assert [port.host_port for port in spec.containers[0].ports] == [80]
    claims = [volume.persistent_volume_claim.claim_name for volume in spec.volumes]
    assert claims == ["data", "more"]
    assert spec.priority == 7 and spec.containers[0].image == "app:1"


def test_classes_that_differ_in_requests_and_limits_alone_share_a_shape() -> None:
    classes = PodClasses()
    pods = [make_pod(name) for name in "abc"]
    for number, pod in enumerate(pods[:2], start=1):
        resources = pod.spec.containers[0].resources
        resources.requests["cpu"] = resources.limits["cpu"] = f"{number}"
    pods[2].spec.containers[0].ClearField("resources")
    found = [classes.intern(pod) for pod in pods]
    assert len(set(found)) == 3
    assert len({cls.shape for cls in found}) == 1
    for pod, cls in zip(pods, found, strict=True):
        assert cls.spec.containers[0].resources == pod.spec.containers[0].resources


def test_classes_that_differ_in_labels_or_volumes_share_the_shape_of_the_rest() -> None:
    classes = PodClasses()
    plain, labelled, mounting, both = (make_pod(name) for name in "abcd")
    for pod in (labelled, both):
        pod.metadata.labels["n"] = pod.metadata.name
    for pod in (mounting, both):
        pod.spec.volumes.add(name="v").persistent_volume_claim.claim_name = pod.metadata.name
    shapes = [classes.intern(pod).shape for pod in (plain, labelled, mounting, both)]
    assert len(set(shapes)) == 4
    assert {shape.plain for shape in shapes} == {shapes[0]}
    assert shapes[1].without_volumes is shapes[1]
    assert shapes[1].without_labels is shapes[0]
    assert shapes[2].without_volumes is shapes[0]
    assert shapes[2].without_labels is shapes[2]
    assert shapes[3].without_labels not in shapes[:3] and shapes[3].without_volumes not in shapes


def test_classes_that_request_the_same_share_amounts_whatever_their_labels_and_volumes() -> None:
    classes = PodClasses()
    pods = [make_pod(name) for name in "abc"]
    pods[1].metadata.labels["n"] = "1"
    pods[2].spec.volumes.add(name="v").persistent_volume_claim.claim_name = "data"
    found = [classes.intern(pod) for pod in pods]
    assert len({id(cls.amounts) for cls in found}) == 1
    pods[0].spec.containers[0].resources.requests["cpu"] = "7"
    assert classes.intern(pods[0]).amounts is not found[0].amounts


def test_each_other_thing_that_splits_classes_splits_shapes() -> None:
    classes = PodClasses()
    claiming = make_pod("claiming")
    claiming.spec.containers[0].resources.claims.add(name="gpu")
    pods = [
        make_pod("plain"),
        make_pod("other", namespace="other"),
        make_pod("labelled", labels={"a": "b"}),
        make_pod("urgent", priority=9),
        claiming,
    ]
    assert len({classes.intern(pod).shape for pod in pods}) == len(pods)


def test_each_thing_a_decision_depends_on_splits_classes() -> None:
    classes = PodClasses()
    owned = make_pod("owned")
    owned.metadata.owner_references.add(kind="ReplicaSet", name="rs", uid="1", controller=True)
    tolerant = make_pod("tolerant")
    tolerant.spec.tolerations.add(key="a", operator="Exists")
    pods = [
        make_pod("plain"),
        make_pod("other", namespace="other"),
        make_pod("labelled", labels={"a": "b"}),
        make_pod("urgent", priority=1),
        make_pod("big", requests={"cpu": "2"}),
        make_pod("port", host_port=80),
        owned,
        tolerant,
    ]
    assert len({classes.intern(pod).id for pod in pods}) == len(pods)


def test_an_ephemeral_volume_makes_the_class_depend_on_the_pod() -> None:
    classes = PodClasses()

    def with_scratch(name: str, uid: str = "") -> v1.Pod:
        pod = make_pod(name, uid=uid)
        pod.spec.volumes.add(name="scratch").ephemeral.volume_claim_template.SetInParent()
        return pod

    first = classes.intern(with_scratch("a"))
    assert classes.intern(with_scratch("a")) is first
    assert classes.intern(with_scratch("b")) is not first
    assert classes.intern(with_scratch("a", uid="made anew")) is not first
    assert first.spec.volumes[0].name == "scratch"


def test_resources_given_in_place_count_and_split_the_class() -> None:
    classes = PodClasses()
    plain = classes.intern(make_pod("a", requests={"cpu": "100m"}))
    resized = make_pod("a", requests={"cpu": "100m"})
    status = resized.status.container_statuses.add(name="main")
    status.resources.requests["cpu"] = "300m"
    grown = classes.intern(resized)
    assert grown is not plain and grown.requests["cpu"] == 300
    resized.status.container_statuses[0].resources.requests["cpu"] = "100m"
    assert classes.intern(resized) is plain


def test_a_pod_info_has_the_times_and_marks_of_its_pod() -> None:
    pod = make_pod("a", terminating=True, nominated="n1")
    pod.metadata.creation_timestamp.seconds = 5
    pod.status.start_time.seconds, pod.status.start_time.nanos = 7, 500_000_000
    made = make_pod_info(pod, PodClasses())
    assert (made.key, made.uid, made.name) == ("default/a", "uid-default-a", "a")
    assert (made.creation_time, made.start_time) == (5.0, 7.5)
    assert made.terminating and made.nominated_node_name == "n1"


def test_a_later_version_shares_what_cannot_change_of_the_pod() -> None:
    classes = PodClasses()
    first = make_pod("a")
    first.metadata.creation_timestamp.seconds = 5
    known = make_pod_info(first, classes)
    later = make_pod("a", node="node-1")
    later.metadata.creation_timestamp.seconds = 5
    found = make_pod_info(later, classes, known)
    assert found.node_name == "node-1"
    assert (found.creation_time, found.cls) == (5.0, known.cls)
    assert found.key is known.key and found.name is known.name


def test_another_pod_of_the_name_shares_nothing_with_the_one_before_it() -> None:
    classes = PodClasses()
    known = make_pod_info(make_pod("a"), classes)
    other = make_pod("a")
    other.metadata.uid, other.metadata.creation_timestamp.seconds = "another", 7
    found = make_pod_info(other, classes, known)
    assert (found.uid, found.creation_time) == ("another", 7.0)


def test_classes_of_pods_that_are_gone_are_forgotten() -> None:
    classes = PodClasses(kept=8)
    alive = info(classes, "alive", labels={"n": "alive"})
    for i in range(100):
        classes.intern(make_pod("x", labels={"n": str(i)}))
    gc.collect()
    assert len(classes) <= 9
    assert info(classes, "again", labels={"n": "alive"}).cls is alive.cls


def test_pods_of_a_template_that_come_one_after_another_share_a_class() -> None:
    classes = PodClasses()
    first = info(classes, "a").cls.id
    gc.collect()
    assert info(classes, "b").cls.id == first


def test_members_of_the_groups_of_a_template_are_read_once_bound_or_not() -> None:
    classes, read = PodClasses(memo_size=8), []
    relevant = classes._relevant
    classes._relevant = lambda spec: (read.append(spec), relevant(spec))[1]  # type: ignore[method-assign]
    found = set()
    for number in range(100):
        for node in ("", "node-1"):
            pod = make_pod("a", labels={"app": "web", "tier": "front"}, node=node)
            pod.spec.scheduling_group.pod_group_name = f"g{number}"
            found.add(classes.intern(pod).id)
    assert len(found) == len(read) == 1
    assert len(classes._memo) <= 8


def test_the_memo_is_bounded_for_pods_of_one_class_that_differ_in_nothing_that_matters() -> None:
    classes = PodClasses(memo_size=8)
    made = []
    for number in range(100):
        pod = make_pod(f"p{number}")
        pod.spec.hostname = f"p{number}"
        made.append(make_pod_info(pod, classes))
    assert len({one.cls.id for one in made}) == 1
    assert len(classes._memo) <= 8


def test_pods_that_differ_in_labels_alone_share_what_is_compiled_of_their_spec() -> None:
    classes = PodClasses()
    one, other = make_pod("a", labels={"n": "1"}), make_pod("b", labels={"n": "2"})
    first, second = classes.intern(one), classes.intern(other)
    assert first is not second
    assert first.spec is second.spec
    assert (first.labels, second.labels) == ({"n": "1"}, {"n": "2"})


def test_the_spec_of_a_class_has_what_its_containers_request_and_are_limited_to() -> None:
    classes = PodClasses()
    specs = []
    for cpu in ("1", "2"):
        pod = make_pod(f"p{cpu}")
        pod.spec.containers[0].resources.requests["cpu"] = cpu
        pod.spec.init_containers.add(name="i", image="i:1").resources.limits["memory"] = "1Gi"
        cls = classes.intern(pod)
        assert cls.spec == relevant_spec(pod.spec)
        specs.append(cls.spec_parts.bare)
    assert specs[0] is specs[1] and not specs[0].containers[0].resources.requests


def test_what_devices_may_be_allocated_for_is_part_of_the_shape() -> None:
    classes = PodClasses()
    plain, more_cpu, one, two = (make_pod(name) for name in "abcd")
    more_cpu.spec.containers[0].resources.requests["cpu"] = "7"
    one.spec.containers[0].resources.requests["example.com/gpu"] = "1"
    two.spec.containers[0].resources.requests["example.com/gpu"] = "2"
    found = [classes.intern(of) for of in (plain, more_cpu, one, two)]
    assert found[0].shape is found[1].shape
    assert len({of.shape for of in found}) == 3
    assert dict(found[3].spec.containers[0].resources.requests) == dict(
        two.spec.containers[0].resources.requests
    )
