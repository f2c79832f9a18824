"""The blocking client has the shape of the other one."""

from __future__ import annotations

import inspect

import podsched
from podsched import ApiClient, Client
from podsched.serve.client import errors

#: What needs an event loop, or is for podsched's own processes.
_NOT_BLOCKING = {
    "apply_config", "checkpoint", "get_raw", "informer",
    "list_page",
    "patch_pod_statuses", "record_events", "submit_pods", "watch_stream",
}  # fmt: skip


def public(of: type) -> set[str]:
    return {name for name in vars(of) if not name.startswith("_")}


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    assert public(ApiClient) - public(Client) == _NOT_BLOCKING
    assert public(Client) <= public(ApiClient)
    for name in public(Client):
        blocking = inspect.signature(getattr(Client, name)).parameters
        assert blocking == inspect.signature(getattr(ApiClient, name)).parameters, name


def test_every_error_of_a_call_can_be_imported_from_the_package() -> None:
    classes = [
        name
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, errors.ClientError)
    ]
    for name in [*classes, "of_result"]:
        assert name in podsched.__all__
        assert getattr(podsched, name) is getattr(errors, name)
