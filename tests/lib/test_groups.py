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
