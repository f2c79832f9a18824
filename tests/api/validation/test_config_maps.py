"""ConfigMaps: their keys, their size, and that immutable ones stay."""

from __future__ import annotations

import pytest

from podsched.api.manifest import from_manifest, to_manifest
from podsched.api.objects import ConfigMap
from podsched.api.validation import validate


def config_map(immutable: bool = False, **data: str) -> ConfigMap:
    item = ConfigMap(data=data, immutable=immutable)
    item.metadata.name, item.metadata.namespace = "settings", "default"
    return item


def problems(item: ConfigMap, old: ConfigMap | None = None) -> set[str]:
    found = validate("ConfigMap", item, old)
    return {error.path for error in found if not error.path.startswith("metadata")}


@pytest.mark.parametrize("key", ["policy.cfg", "a-b_c.D", ".hidden", "x" * 253])
def test_file_names_are_keys(key: str) -> None:
    assert problems(config_map(**{key: "text"})) == set()


@pytest.mark.parametrize("key", [".", "..", "..data", "a/b", "a b", "", "x" * 254])
def test_what_cannot_be_a_file_is_no_key(key: str) -> None:
    assert problems(config_map(**{key: "text"})) == {f"data[{key}]"}


def test_a_key_is_in_one_of_the_two_maps() -> None:
    item = config_map(a="text")
    item.binary_data["a"] = "AAE="
    assert problems(item) == {"data[a]"}


@pytest.mark.parametrize("value", ["no base64", "\ufeff"])
def test_binary_data_is_base64(value: str) -> None:
    item = config_map()
    item.binary_data["a"] = value
    assert problems(item) == {"binaryData[a]"}


def test_a_mebibyte_is_the_most() -> None:
    assert problems(config_map(a="x" * (1 << 20))) == set()
    assert problems(config_map(a="x" * (1 << 20), b="y")) == {""}


def test_an_immutable_one_stays_as_it_is() -> None:
    old = config_map(immutable=True, a="1")
    assert problems(config_map(immutable=True, a="1"), old) == set()
    assert problems(config_map(a="2"), old) == {"immutable", "data"}
    assert problems(config_map(a="2"), config_map(a="1")) == set()


def test_manifests_are_read_and_printed_back() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"policy.cfg": '{"kind": "Policy"}'},
        "binaryData": {"logo.png": "iVBORw0KGgo="},
    }
    read = from_manifest(manifest)
    assert not read.warnings
    assert to_manifest(read.message) == manifest
