"""Output formats of ``get``."""

from __future__ import annotations

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.manifest import load_documents
from podsched.api.objects import AnyObject, Node, Pod
from podsched.cli.formats import (
    Format,
    Printer,
    dump,
    parse_format,
    sorted_by,
    warn_if_unsorted,
)
from support.examples import examples


def pod(name: str, cpu: str = "") -> Pod:
    message = Pod()
    message.metadata.name = name
    if cpu:
        message.spec.containers.add(name="c").resources.requests["cpu"] = cpu
    return message


def test_custom_columns_show_fields_and_none_where_there_is_none() -> None:
    chosen = parse_format("custom-columns=NAME:.metadata.name,NODE:.spec.nodeName")
    bound = pod("b")
    bound.spec.node_name = "n1"
    text = Printer(chosen).text([pod("a"), bound], single=False)
    assert text.splitlines() == ["NAME   NODE", "a      <none>", "b      n1"]


def test_tables_of_several_kinds_have_kinds_in_their_names() -> None:
    node = Node()
    node.metadata.name = "n"
    lines = Printer(Format("table"), kinds_in_names=True).text([pod("p"), node], single=False)
    names = [line.split()[0] for line in lines.splitlines() if line]
    assert names == ["NAME", "pod/p", "NAME", "node/n"]


def test_quantities_are_sorted_by_value_and_what_is_missing_comes_first() -> None:
    items: list[AnyObject] = [pod("a", "2"), pod("b", "500m"), pod("c"), pod("d", "1")]
    path = "{.spec.containers[0].resources.requests.cpu}"
    assert [item.metadata.name for item in sorted_by(items, path)] == ["c", "b", "d", "a"]


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_manifests_are_printed_without_the_managers_of_their_fields(form: str) -> None:
    managed = pod("a")
    managed.metadata.managed_fields.add().update({"manager": "kubectl"})
    assert "manage" not in Printer(Format(form)).text([managed], single=False)
    chosen = parse_format("jsonpath={.metadata.managedFields[0].manager}")
    assert Printer(chosen).text([managed], single=True) == "kubectl"


def test_numbers_in_names_are_sorted_by_value() -> None:
    """As kubectl does, however long they are."""
    long = "web-" + "9" * 5000
    items: list[AnyObject] = [pod(name) for name in ("web-10", long, "web1", "web-9", "a", "web")]
    names = [item.metadata.name for item in sorted_by(items, ".metadata.name")]
    assert names == ["a", "web", "web-9", "web-10", long, "web1"]


@pytest.mark.parametrize(
    "text", ["xml", "jsonpath", "jsonpath={.a[}", "custom-columns=NAME", "table=x", ""]
)
def test_a_format_that_does_not_exist_is_a_usage_error(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        Printer(parse_format(text))
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err.startswith("error: --output: ")


def test_a_field_to_sort_by_that_no_object_has_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    warn_if_unsorted([pod("a"), pod("b")], ".metadata.name")
    assert capsys.readouterr().err == ""
    warn_if_unsorted([pod("a"), pod("b")], ".metadata.nam")
    assert capsys.readouterr().err == "warning: --sort-by: no object has the field .metadata.nam\n"


@pytest.mark.parametrize("text", ["08", "1e3", "1234567e8", "1_0.5e1", "0o17", "y", "N"])
def test_text_that_others_would_not_read_as_text_is_quoted(text: str) -> None:
    """To kubectl, more looks like a number or a boolean than to PyYAML."""
    assert dump({"a": text, "b": 8, "c": 1e30, "d": True}, "yaml") == (
        f"a: '{text}'\nb: 8\nc: 1.0e+30\nd: true"
    )


@examples(300)
@given(
    st.from_regex(r"[-+]?[0-9a-fonNyY_.:]{0,6}", fullmatch=True)
    | st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(["yaml", "json"]),
)
def test_what_is_printed_is_read_again(text: str, form: str) -> None:
    assert load_documents(dump({"a": [text]}, form)) == [{"a": [text]}]
