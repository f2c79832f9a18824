"""Scheduler extenders: the fields of a configuration and their validation.

Source: Extender of k8s.io/kube-scheduler/config/v1, validateExtenders of kube-scheduler v1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from podsched.config.errors import FieldError, invalid
from podsched.config.model import Base64, Duration, Int64, ListOf, Model, join
from podsched.config.names import extended_resource_errors

#: Seconds a call to an extender may take when its configuration does not say.
DEFAULT_EXTENDER_TIMEOUT = 5.0


def _default_for_zero(seconds: float) -> float:
    return seconds or DEFAULT_EXTENDER_TIMEOUT


class ExtenderManagedResource(Model):
    name: str = ""
    ignored_by_scheduler: bool = False
    """Whether NodeResourcesFit leaves this resource to the extender."""


class ExtenderTLSConfig(Model):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: Base64 = b""
    key_data: Base64 = Field(default=b"", repr=False)
    ca_data: Base64 = b""


class Extender(Model):
    """A web service that takes part in scheduling; a verb left empty is not called."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Annotated[Duration, AfterValidator(_default_for_zero)] = DEFAULT_EXTENDER_TIMEOUT
    node_cache_capable: bool = False
    managed_resources: ListOf[ExtenderManagedResource] = ()
    ignorable: bool = False


def extender_errors(extenders: Sequence[Extender], path: str) -> list[FieldError]:
    """Return what is wrong with the extenders, each by itself and together."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for at, extender in enumerate(extenders):
        here = join(path, at)
        if extender.prioritize_verb and extender.weight <= 0:
            reason = "must have a positive weight applied to it"
            found.append(invalid(join(here, "weight"), extender.weight, reason))
        if extender.http_timeout < 0:
            reason = "must not be negative"
            found.append(invalid(join(here, "httpTimeout"), extender.http_timeout, reason))
        for index, resource in enumerate(extender.managed_resources):
            name = join(here, "managedResources", index, "name")
            found += extended_resource_errors(name, resource.name)
            if resource.name in seen:
                reason = "duplicate extender managed resource name"
                found.append(invalid(name, resource.name, reason))
            seen.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        value = f"found {binders} extenders implementing bind"
        found.append(invalid(path, value, "only one extender can implement bind"))
    return found


def ignored_resources(extenders: Sequence[Extender]) -> tuple[str, ...]:
    """Return the resources that NodeResourcesFit is to ignore because an extender looks after them."""
    return tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
