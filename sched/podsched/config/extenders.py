"""The configuration of scheduler extenders, and its validation.

Source: Extender of k8s.io/kube-scheduler/config/v1, validateExtenders of kube-scheduler v1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from podsched.api.extended_resources import is_extended
from podsched.api.names import qualified_name
from podsched.config.errors import FieldError, invalid
from podsched.config.model import Base64, Duration, Int64, ListOf, Model, join, unless_empty
from podsched.lib.network import http_url

#: Timeout in seconds of calls to an extender without httpTimeout.
DEFAULT_EXTENDER_TIMEOUT = 5.0

# Finds the password in a URL. It may contain "@". One with "/" makes the URL invalid, but must not
# be shown either. A port followed by a path with "@" is not a password.
_PASSWORD = re.compile(r"^([^/]*//[^/:@]*:)(?!\d+/)(?:[^/]*|.*)@")


class ExtenderManagedResource(Model):
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False
    """Whether NodeResourcesFit ignores the resource, because the extender checks it."""


class ExtenderTLSConfig(Model):
    """TLS settings of the connection to an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: Base64 = b""
    key_data: Base64 = Field(default=b"", repr=False)
    ca_data: Base64 = b""


class Extender(Model):
    """A web service that takes part in scheduling; empty verbs are not called."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Annotated[Duration, unless_empty(DEFAULT_EXTENDER_TIMEOUT)] = (
        DEFAULT_EXTENDER_TIMEOUT
    )
    node_cache_capable: bool = False
    managed_resources: ListOf[ExtenderManagedResource] = ()
    ignorable: bool = False

    def verbs(self) -> list[str]:
        """Return the verbs that are called; without any, only managed resources have an effect."""
        verbs = (self.filter_verb, self.prioritize_verb, self.preempt_verb, self.bind_verb)
        return [verb for verb in verbs if verb]


def extender_errors(extenders: Sequence[Extender], path: str) -> Iterator[FieldError]:
    """Yield the errors of the extenders, of each one and of their combination."""
    seen: set[str] = set()
    for at, extender in enumerate(extenders):
        here = join(path, at)
        if extender.verbs() and (problem := _url_problem(extender.url_prefix)):
            yield invalid(join(here, "urlPrefix"), redacted(extender.url_prefix), problem)
        if extender.prioritize_verb and extender.weight <= 0:
            reason = "must have a positive weight applied to it"
            yield invalid(join(here, "weight"), extender.weight, reason)
        if extender.http_timeout < 0:
            reason = "must not be negative"
            yield invalid(join(here, "httpTimeout"), extender.http_timeout, reason)
        for index, resource in enumerate(extender.managed_resources):
            name = join(here, "managedResources", index, "name")
            reasons = qualified_name(resource.name)
            if not reasons and not is_extended(resource.name):
                reasons = ("is an invalid extended resource name",)
            yield from (invalid(name, resource.name, reason) for reason in reasons)
            if resource.name in seen:
                reason = "duplicate extender managed resource name"
                yield invalid(name, resource.name, reason)
            seen.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        value = f"found {binders} extenders implementing bind"
        yield invalid(path, value, "only one extender can implement bind")


def _url_problem(url: str) -> str:
    """Return why a URL prefix is unusable, "" if it is usable."""
    # A verb is appended to it: it would become part of a query or fragment.
    disturbing = any(c in "?#" or c.isspace() or not c.isprintable() for c in url)
    usable = http_url(url) is not None and not disturbing
    return "" if usable else "must be a URL such as http://extender:8888/scheduler"


def redacted(url: str) -> str:
    """Return the URL with its password as "xxxxx", as Go's URL.Redacted shows it."""
    return _PASSWORD.sub(r"\1xxxxx@", url)


def ignored_resources(extenders: Sequence[Extender]) -> tuple[str, ...]:
    """Return the resources that NodeResourcesFit ignores because an extender checks them."""
    return tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
