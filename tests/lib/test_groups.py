from podsched.lib.groups import Grouped, Groups


def test_a_key_may_be_in_several_groups_and_leaves_them_one_by_one() -> None:
    groups = Groups[str, str, int]()
    groups.put("a", "x", 1)
    groups.put("b", "x", 2)
    groups.put("a", "y", 3)
    groups.drop("a", "x")
    groups.drop("a", "never there")
    assert (dict(groups.of("a")), dict(groups.of("b"))) == ({"y": 3}, {"x": 2})


def test_empty_groups_vanish() -> None:
    groups = Groups[str, str, None]()
    groups.put("a", "x", None)
    groups.drop("a", "x")
    groups.drop("b", "x")
    assert not groups and "a" not in groups and not groups.of("a")
    groups.put("a", "x", None)
    assert list(groups.pop("a")) == ["x"] and not groups and not groups.pop("a")


def test_groups_take_turns_each_with_its_oldest_key() -> None:
    groups = Groups[str, str, None]()
    for group, key in (("a", "a1"), ("a", "a2"), ("b", "b1"), ("a", "a3")):
        groups.put(group, key, None)
    taken = [groups.next_in_turn() for _ in range(3)]
    groups.put("b", "b2", None)
    taken += [groups.next_in_turn() for _ in range(2)]
    assert taken == ["a1", "b1", "a2", "a3", "b2"] and not groups


def test_a_key_that_moves_leaves_its_former_group() -> None:
    grouped = Grouped[str, str, int]()
    grouped.move("x", "a", 1)
    grouped.move("x", "b", 2)
    assert (list(grouped), dict(grouped.of("b")), grouped.group_of("x")) == (["b"], {"x": 2}, "b")
    grouped.move("x", "b", 3)
    assert dict(grouped.of("b")) == {"x": 3}
    grouped.move("x", None, 0)
    grouped.remove("x")
    assert not grouped and grouped.group_of("x") is None
