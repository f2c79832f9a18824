"""Server-side apply: what is stored when managers apply, and what it costs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.serve.server.rest import fieldsets
from podsched.serve.server.rest.failures import RestError
from podsched.serve.server.rest.managers import Manager, applied, normalized
from podsched.serve.server.rest.resources import GROUPS

POD = GROUPS["", "v1"]["pods"]
Content = dict[str, Any]
NEW: Content = {"metadata": {"name": "web", "uid": "1"}}


def env(*names: str, value: str = "v") -> list[Content]:
    return [{"name": name, "value": value} for name in names]


def pod(*containers: Content, **labels: str) -> Content:
    return {"metadata": {"name": "web", "labels": labels}, "spec": {"containers": [*containers]}}


def container(name: str, *variables: str, value: str = "v") -> Content:
    return {"name": name, "image": "i", "env": env(*variables, value=value)}


def apply(live: Content, config: Content, manager: str = "one", *, force: bool = False) -> Content:
    by = Manager(manager, "Apply")
    return applied(live, config, by, force=force, version="v1", clock=lambda: 0.0)


def env_of(content: Content) -> Any:
    return content["spec"]["containers"][0].get("env")


def test_a_reference_is_owned_as_a_whole() -> None:
    """Its members make sense only together."""
    key = {"name": "passwords", "key": "a"}
    variable = {"name": "x", "valueFrom": {"secretKeyRef": key}}
    live = apply(NEW, {"spec": {"containers": [{"name": "a", "env": [variable]}]}})
    other = {"name": "x", "valueFrom": {"secretKeyRef": {**key, "optional": True}}}
    with pytest.raises(RestError) as refused:
        apply(live, {"spec": {"containers": [{"name": "a", "env": [other]}]}}, "two")
    [cause] = (refused.value.details or {})["causes"]
    assert cause["field"].endswith('.env[name="x"].valueFrom.secretKeyRef')


@pytest.mark.parametrize(
    ("kind", "labels"),
    [("Pod", {"f:metadata": {"f:labels": {"f:a": {}}}}), ("VolumeAttachment", {})],
)
def test_who_applies_a_status_owns_of_the_metadata_what_is_written_with_it(
    kind: str, labels: Content
) -> None:
    config = {"metadata": {"labels": {"a": "1"}, "finalizers": ["a/a"]}, "status": {"x": 1}}
    by = Manager("one", "Apply", "status")
    found = applied(NEW, config, by, force=False, version="v1", kind=kind, clock=lambda: 0.0)
    [owner] = found["metadata"]["managedFields"]
    assert owner["fieldsV1"] == {"f:status": {"f:x": {}}, **labels}


# ---------------------------------------------------------------------- what is removed


@pytest.mark.parametrize("seed", range(10))
def test_an_item_that_is_applied_no_longer_goes_as_a_whole(seed: int) -> None:
    """Whatever the order in which a process keeps the fields: names differ, and so their hashes."""
    names = [f"e{seed}-{number}" for number in range(4)]
    live = apply(NEW, pod(container("a", *names)))
    left = apply(live, pod(container("a", names[0], names[3])))
    assert env_of(left) == env(names[0], names[3])


def test_an_item_of_another_applier_stays() -> None:
    live = apply(NEW, pod(container("a", "x", "y")))
    live = apply(live, {"spec": {"containers": [{"name": "a", "env": env("y")}]}}, "two")
    assert env_of(apply(live, pod(container("a", "x")))) == env("x", "y")


def test_an_item_goes_with_the_fields_that_another_has_set_in_it() -> None:
    """Who owns a field in an item does not own the item, as in structured-merge-diff."""
    live = apply(NEW, pod(container("a"), container("b")))
    other = {
        "manager": "hand",
        "operation": "Update",
        "fieldsV1": {
            "f:spec": {"f:containers": {'k:{"name":"b"}': {"f:workingDir": {}}}},
        },
    }
    live["spec"]["containers"][1]["workingDir"] = "/"
    live["metadata"]["managedFields"].append(other)
    left = apply(live, pod(container("a")))
    assert [each["name"] for each in left["spec"]["containers"]] == ["a"]
    assert [owner["manager"] for owner in left["metadata"]["managedFields"]] == ["one"]


def test_a_field_in_an_item_that_stays_is_removed_alone() -> None:
    live = apply(NEW, pod(container("a", "x")))
    left = apply(live, pod({"name": "a", "image": "i"}))
    assert left["spec"]["containers"] == [{"name": "a", "image": "i"}]


def test_the_key_of_an_item_that_another_owns_without_its_key_stays() -> None:
    live = apply(NEW, pod(container("a", "x")))
    item = {"k:" + '{"name":"x"}': {".": {}}}
    containers = {"f:containers": {'k:{"name":"a"}': {"f:env": item}}}
    other = {"manager": "odd", "operation": "Update", "fieldsV1": {"f:spec": containers}}
    live["metadata"]["managedFields"].append(other)
    assert env_of(apply(live, pod(container("a")))) == [{"name": "x"}]


def test_a_member_without_owned_fields_goes_with_its_defaults() -> None:
    live = apply(NEW, pod(container("a") | {"resources": {"limits": {"cpu": "1"}}}))
    live["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    assert "resources" not in apply(live, pod(container("a")))["spec"]["containers"][0]


def test_who_applies_no_labels_any_more_leaves_the_identity_of_the_object() -> None:
    live = apply(NEW, {"metadata": {"labels": {"app": "web"}}})
    left = apply(live, {"metadata": {"name": "web"}})
    assert left["metadata"] == {"name": "web", "uid": "1", "managedFields": []}


def test_a_value_of_a_set_goes_with_its_last_owner() -> None:
    live = apply(NEW, {"metadata": {"finalizers": ["a/a", "b/b"]}})
    live = apply(live, {"metadata": {"finalizers": ["b/b"]}}, "two")
    left = apply(live, {"metadata": {"name": "web"}})
    assert left["metadata"]["finalizers"] == ["b/b"]


def test_who_takes_back_the_last_item_has_no_conflict_with_who_applies_none() -> None:
    """Manifests from templates often have empty labels and lists."""
    some: Content = {"labels": {"app": "web"}, "finalizers": ["a/a"]}
    none: Content = {"labels": {}, "finalizers": []}
    live = apply(NEW, {"metadata": some, "spec": {"containers": [container("a", "x")]}})
    live = apply(live, {"metadata": none, "spec": {"containers": [container("a")]}}, "two")
    left = apply(live, {"spec": {"containers": [{"name": "a", "image": "i"}]}})
    assert not left["metadata"]["labels"] and not left["metadata"]["finalizers"]
    assert not env_of(left)


def test_items_get_the_order_in_which_they_are_applied() -> None:
    """Init containers run in it. What others have added stays where it stands."""
    live = apply(NEW, {"spec": {"initContainers": [container("a"), container("b")]}})
    live = apply(live, {"spec": {"initContainers": [container("a"), container("x")]}}, "other")
    config = {"spec": {"initContainers": [container("new"), container("b"), container("a")]}}
    found = apply(live, config)
    names = [each["name"] for each in found["spec"]["initContainers"]]
    assert names == ["new", "b", "x", "a"]
    assert apply(found, config) == found


def test_an_item_that_stands_twice_in_a_configuration_is_refused() -> None:
    with pytest.raises(RestError, match=r'containers\[name="a"\]\.env\[name="x"\]: duplicate'):
        normalized(POD, pod(container("a", "x", "y", "x")))


def test_items_that_stand_twice_in_an_object_change_nothing_by_themselves() -> None:
    """Kubernetes stores them: of variables, the last one counts."""
    doubled = pod({"name": "a", "env": [*env("x", value="1"), *env("y"), *env("x", value="2")]})
    live = apply(doubled, {"metadata": {"labels": {"a": "b"}}})
    assert apply(live, {"metadata": {"labels": {"a": "b"}}}) == live
    assert env_of(live) == env_of(doubled)


def test_an_applied_item_takes_the_place_of_all_those_with_its_key() -> None:
    live = pod({"name": "a", "env": [*env("x", value="1"), *env("y"), *env("x", value="2")]})
    found = apply(live, pod(container("a", "x", value="3")), force=True)
    assert env_of(found) == [*env("x", value="3"), *env("y")]


def test_only_what_a_configuration_says_is_applied() -> None:
    """Not the zero of a number that an object shows always."""
    classes = GROUPS["scheduling.k8s.io", "v1"]["priorityclasses"]
    config = {"metadata": {"name": "a"}, "description": "new", "globalDefault": None}
    found = normalized(classes, config)
    assert found == ({"metadata": {"name": "a"}, "description": "new"}, {})


def test_a_time_that_is_applied_has_all_its_digits() -> None:
    leases = GROUPS["coordination.k8s.io", "v1"]["leases"]
    spec = {"renewTime": "2026-01-01T00:00:00.000000Z"}
    assert normalized(leases, {"spec": spec}).content == {"spec": spec}


def test_a_long_answer_about_conflicts_names_the_first_hundred() -> None:
    names = [f"e{number:03}" for number in range(150)]
    live = apply(NEW, pod(container("a", *names)))
    with pytest.raises(RestError) as caught:
        apply(live, pod(container("a", *names, value="w")), "two")
    assert caught.value.message.startswith("Apply failed with 150 conflicts: conflicts:\n- ")
    assert caught.value.message.endswith("and 50 more")
    assert len((caught.value.details or {})["causes"]) == 100


def test_what_could_be_applied_once_can_be_applied_again_and_by_others() -> None:
    """The limit counts no ``managedFields``, which name each of the object's fields again."""
    config = {"metadata": {"name": "web"}, "data": {f"k{number}": "v" for number in range(9_900)}}
    live = apply(NEW, config)
    for manager in ("one", "two", "three"):
        live = apply(live, config, manager)
    assert [len(owner["fieldsV1"]["f:data"]) for owner in live["metadata"]["managedFields"]] == [
        9_900
    ] * 3
    assert apply(live, {"metadata": {"name": "web"}})["data"] == config["data"]


# ---------------------------------------------------------------------- what kubectl has applied

NOTE = "kubectl.kubernetes.io/last-applied-configuration"


def applied_by_kubectl(**labels: str) -> Content:
    """Return an object that kubectl has applied by itself, without managers."""
    metadata: Content = {"name": "web", "labels": labels}
    note = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    return {"metadata": {**metadata, "annotations": {NOTE: note}}}


def test_kubectl_may_change_on_the_server_what_it_applied_by_itself() -> None:
    live = applied_by_kubectl(app="web")
    change = {"metadata": {"labels": {"app": "db"}}}
    with pytest.raises(RestError):
        apply(live, change, "other")
    metadata = apply(live, change, "kubectl")["metadata"]
    assert metadata["labels"] == {"app": "db"}
    note = json.loads(metadata["annotations"][NOTE])
    assert note["metadata"] == {"labels": {"app": "db"}, "annotations": {}}


def test_what_another_has_changed_since_kubectl_applied_it_is_a_conflict() -> None:
    live = applied_by_kubectl(app="web", tier="a")
    live["metadata"]["labels"]["tier"] = "b"
    with pytest.raises(RestError) as refused:
        apply(live, {"metadata": {"labels": {"app": "db", "tier": "c"}}}, "kubectl")
    assert refused.value.message.startswith("Apply failed with 1 conflict: ")
    assert refused.value.message.endswith(".metadata.labels.tier")


def test_a_note_of_kubectl_that_became_too_large_is_left_out() -> None:
    """With it, the configuration would be refused."""
    found = apply(applied_by_kubectl(), {"data": {"a": 2**18 * "x"}}, "kubectl")
    assert found["metadata"]["annotations"] == {}


# ---------------------------------------------------------------------- a plain reading of the rule

NAMES = ("a", "b", "c")
values = st.sampled_from(("1", "2"))
variables = st.dictionaries(st.sampled_from(NAMES), values, max_size=3).map(
    lambda found: [{"name": name, "value": value} for name, value in found.items()]
)
containers = st.dictionaries(
    st.sampled_from(NAMES),
    st.fixed_dictionaries({}, optional={"image": values, "env": variables}),
    max_size=3,
).map(lambda found: [{"name": name, **rest} for name, rest in found.items()])
configs = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "labels": st.dictionaries(st.sampled_from(NAMES), values, max_size=3),
                "finalizers": st.lists(st.sampled_from(NAMES), unique=True),
            },
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={"containers": containers, "nodeName": values, "securityContext": st.just({})},
        ),
    },
)
applies = st.lists(st.tuples(st.sampled_from(("one", "two", "three")), configs), max_size=6)
Path = tuple[str, ...]


def owned_paths(owner: Mapping[str, Any]) -> set[Path]:
    def walk(fields: Mapping[str, Any], path: Path) -> Iterable[Path]:
        for element, inner in fields.items():
            if element == ".":
                yield path
            elif inner:
                yield from walk(inner, (*path, element))
            else:
                yield (*path, element)

    return set(walk(owner["fieldsV1"], ()))


def plainly_pruned(content: Any, is_gone: Callable[[Path], bool], path: Path = ()) -> Any:
    """Return an object without the paths that are gone."""
    if isinstance(content, dict):
        return {
            key: plainly_pruned(value, is_gone, (*path, f"f:{key}"))
            for key, value in content.items()
            if not is_gone((*path, f"f:{key}"))
        }
    if not isinstance(content, list):
        return content
    found = []
    for item in content:
        element = f'v:"{item}"' if isinstance(item, str) else f'k:{{"name":"{item["name"]}"}}'
        if not is_gone((*path, element)):
            found.append(plainly_pruned(item, is_gone, (*path, element)))
    return found


def expected(merged: Content, last: set[Path], owned: set[Path]) -> Content:
    """Return what is left when an applier lets go: the rule, read path by path."""

    def is_gone(path: Path) -> bool:
        if path[-1].startswith("f:"):
            # A member: the applier has applied a part of it, and no part of it has an owner.
            return _any_in(last, path) and not _any_in(owned, path)
        return path in last and path not in owned

    return plainly_pruned(merged, is_gone)  # type: ignore[no-any-return]


def _any_in(paths: set[Path], path: Path) -> bool:
    return any(other[: len(path)] == path for other in paths)


def without_owners(content: Content) -> Content:
    metadata = {k: v for k, v in content["metadata"].items() if k != "managedFields"}
    return {**content, "metadata": metadata}


def merged_plainly(live: Any, config: Any) -> Any:
    if isinstance(live, dict) and isinstance(config, dict):
        both = {key: merged_plainly(live.get(key), value) for key, value in config.items()}
        return {**live, **both}
    if isinstance(live, list) and isinstance(config, list):
        if all(isinstance(item, str) for item in (*live, *config)):
            return [*live, *(item for item in config if item not in live)]
        named = {item["name"]: item for item in live}
        given = [item["name"] for item in config]
        order = ordered_plainly([*named], given)
        for item in config:
            named[item["name"]] = merged_plainly(named.get(item["name"], {}), item)
        return [named[name] for name in order]
    return config


def ordered_plainly(live: list[str], config: list[str]) -> list[str]:
    """Return what is applied in its order, and the rest where it stands between that."""
    order, left = [], [*live]
    for number, name in enumerate(config):
        common = next((each for each in config[number:] if each in live), None)
        while left and left[0] != common:
            order += [left[0]] if left[0] not in config else []
            del left[0]
        order.append(name)
        if name == common:
            del left[:1]
    return order + [each for each in left if each not in config]


@given(applies)
def test_applies_leave_what_a_plain_reading_of_the_rule_leaves(
    steps: list[tuple[str, Content]],
) -> None:
    live = NEW
    for manager, config in steps:
        owners = {o["manager"]: owned_paths(o) for o in live["metadata"].get("managedFields", [])}
        last = owners.pop(manager, set())
        after = apply(live, config, manager, force=True)
        listed = {o["manager"]: owned_paths(o) for o in after["metadata"]["managedFields"]}
        owned = set[Path]().union(
            {("f:metadata", "f:name")}, listed.get(manager, ()), *owners.values()
        )
        wanted = expected(merged_plainly(without_owners(live), config), last, owned)
        assert without_owners(after) == wanted
        live = after


@given(applies, st.randoms(use_true_random=False))
def test_the_order_in_which_owners_and_fields_are_kept_changes_nothing(
    steps: list[tuple[str, Content]], chance: Any
) -> None:
    def mixed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: mixed(value[key]) for key in chance.sample([*value], len(value))}
        return value

    one = other = NEW
    for manager, config in steps:
        one = apply(one, config, manager, force=True)
        owners = [mixed(o) for o in other["metadata"].get("managedFields", [])]
        chance.shuffle(owners)
        metadata = {**other["metadata"], "managedFields": owners}
        other = apply({**other, "metadata": metadata}, config, manager, force=True)
        assert without_owners(one) == without_owners(other)
        by_name = [
            {o["manager"]: o for o in each["metadata"]["managedFields"]} for each in (one, other)
        ]
        assert by_name[0] == by_name[1]


# ---------------------------------------------------------------------- what it costs


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions of ``fieldsets`` are called."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename == fieldsets.__file__

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def cost(size: int) -> int:
    """Return the calls that it takes to take two of three variables from many containers."""
    before = pod(*(container(f"c{number}", "x", "y", "z") for number in range(size)))
    after = pod(*(container(f"c{number}", "y") for number in range(size)))
    live = apply(NEW, before)
    return calls_of(lambda: apply(live, after))


def test_twice_the_items_cost_twice_as_much() -> None:
    assert cost(80) < 2.2 * cost(40)
