"""What claims, classes and slices have in common: selectors, configuration, names, taints.

Source: pkg/apis/resource/validation/validation.go, v1.36.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from podsched.api import objects as o
from podsched.api.cel.strings import Patterns
from podsched.api.device_selectors import MAX_COST, CompileError, compile_selector
from podsched.api.field_errors import ErrorType, FieldError
from podsched.api.names import dns1123_label, dns1123_subdomain, label_value, qualified_name
from podsched.api.validation.place import Place

MOST_SELECTORS: Final = 32
MOST_CONFIGS: Final = 32
MOST_CONDITIONS: Final = 4
MOST_TAINTS: Final = 16
_MOST_EXPRESSION_BYTES: Final = 10 << 10
#: Max bytes of all expressions of an object together.
MOST_EXPRESSIONS_BYTES: Final = 32 << 10
#: Expressions that do not compile, after which no more of an object are compiled.
_MOST_FAULTS: Final = 32
MOST_PARAMETERS_BYTES: Final = 10 << 10
_MOST_DOMAIN: Final = 63
_MOST_IDENTIFIER: Final = 32
_MOST_POOL_NAME: Final = 253

TAINT_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_RULE: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for "
    f"validation is '{_IDENTIFIER.pattern}')"
)


class NewSelectors:
    """Checks the selectors of one object, which Kubernetes limits only each by itself.

    Compiling 10 KiB takes up to 160 ms, and the regular expressions of one selector up to 30 ms.
    """

    def __init__(self, at: Place, selectors: Iterable[o.DeviceSelector]) -> None:
        """Check that all expressions are not too long together; otherwise none is compiled."""
        together = sum(len(selector.cel.expression.encode()) for selector in selectors)
        #: Instructions of regular expressions that may still be compiled.
        self._patterns = Patterns.MOST
        if together > MOST_EXPRESSIONS_BYTES:
            self._stop(at, f"{MOST_EXPRESSIONS_BYTES} bytes")

    def check(self, at: Place, expression: str) -> None:
        """Check that an expression compiles and is not too expensive."""
        within = at.within(len(expression.encode()), _MOST_EXPRESSION_BYTES)
        if not within or self._patterns < 0:
            return
        fault, cost, patterns = _compiled(expression)
        self._patterns -= patterns
        if self._patterns < 0:
            self._stop(at, f"{Patterns.MOST} instructions of regular expressions")
        elif fault:
            at.invalid(expression, fault)
        elif cost > MAX_COST:
            at.forbidden("too complex, exceeds cost limit")

    def _stop(self, at: Place, limit: str) -> None:
        self._patterns = -1
        reason = f"selectors may not have more than {limit} together"
        at.errors.append(FieldError(at.path, None, reason, ErrorType.TOO_LONG))


def validate_selectors(
    at: Place, selectors: Sequence[o.DeviceSelector], new: NewSelectors | None
) -> None:
    """Validate selectors; new: checks their expressions, None if they are stored already."""
    for each, selector in at.each(selectors, MOST_SELECTORS):
        if each("cel").present(selector.HasField("cel")) and new is not None:
            new.check(each("cel.expression"), selector.cel.expression)


@lru_cache(256)
def _compiled(expression: str) -> tuple[str, int, int]:
    """Return what is wrong with an expression, or "", its cost, and what its patterns take.

    Of one that is wrong it is not known what they took.
    """
    try:
        found = compile_selector(expression, new=True)
    except CompileError as error:
        return str(error), 0, Patterns.MOST // _MOST_FAULTS
    return "", found.estimated_cost, found.patterns


def validate_configuration(at: Place, config: Any, *, stored: bool = False) -> None:
    """Check the opaque part of a configuration.

    stored: the same parameters are stored already, and may be longer.
    """
    at = at("opaque")
    if not at.present(config.HasField("opaque")):
        return
    driver_name(at("driver"), config.opaque.driver)
    raw, at = config.opaque.parameters, at("parameters")
    # That it is JSON is checked of all objects (``storable``).
    if at.present(raw.text) and not stored:
        validate_json_size(at, raw, MOST_PARAMETERS_BYTES)


def validate_json_size(at: Place, raw: o.RawJSON, most: int) -> None:
    """Check that JSON has no more than ``most`` bytes.

    The white space that a client wrote is not kept: one space is counted after each "," and ":".
    """
    size = len(raw.text.encode())
    if size <= most:
        size = len(json.dumps(json.loads(raw.text), ensure_ascii=False).encode())
    at.within(size, most)


def driver_name(at: Place, name: str) -> None:
    """Check the name of a driver: a subdomain of at most 63 bytes, of any case."""
    if not at.present(name):
        return
    at.within(len(name.encode()), _MOST_DOMAIN)
    at.rule(name, lambda name: dns1123_subdomain(name.lower()))


def pool_name(at: Place, name: str) -> None:
    """Check the name of a pool: subdomains with slashes between them."""
    if not at.present(name):
        return
    if not at.within(len(name.encode()), _MOST_POOL_NAME):
        return
    for part in name.split("/"):
        at.rule(part, dns1123_subdomain)


def device_name(at: Place, name: str) -> None:
    """Check the name of a device or of a counter."""
    at.rule(name, dns1123_label)


def identifier(at: Place, name: str) -> None:
    """Check the name of an attribute or of a capacity without its domain."""
    at.within(len(name.encode()), _MOST_IDENTIFIER)
    if _IDENTIFIER.fullmatch(name) is None:
        at.invalid(name, _IDENTIFIER_RULE)


def attribute_name(at: Place, name: str) -> None:
    """Check the name of an attribute or of a capacity: identifier or domain/identifier.

    As in Kubernetes v1.36, nothing is wrong with names that have more slashes.
    """
    domain, slash, rest = name.partition("/")
    if not slash:
        identifier(at, name)
    elif "/" not in rest:
        if domain:
            driver_name(at, domain)
        else:
            at.invalid("", "the domain must not be empty")
        if rest:
            identifier(at, rest)
        else:
            at.invalid("", "the name must not be empty")


def full_attribute_name(at: Place, name: str) -> None:
    """Check the name of an attribute that must have a domain."""
    attribute_name(at, name)
    if "/" not in name:
        reason = "a fully qualified name must be a domain and a name separated by a slash"
        at.invalid(name, reason)


def validate_device_taint(at: Place, taint: o.Taint, old: str = "") -> None:
    """Check key, value and effect of a device's taint; not an effect that is stored (``old``)."""
    at("key").rule(taint.key, qualified_name)
    at("value").rule(taint.value, label_value)
    if at("effect").present(taint.effect) and taint.effect != old:
        at("effect").one_of(taint.effect, TAINT_EFFECTS)


def validate_device_tolerations(at: Place, tolerations: Sequence[o.Toleration]) -> None:
    """Check keys, operators, values and effects of tolerations of devices' taints."""
    for each, toleration in at.each(tolerations, MOST_TAINTS):
        each("key").optional_name(toleration.key, qualified_name)
        if toleration.operator == "Exists":
            if toleration.value:
                each("value").invalid(toleration.value, "must be empty for operator `Exists`")
        elif toleration.operator == "Equal":
            each("value").rule(toleration.value, label_value)
        elif not toleration.operator:
            each("operator").required()
        else:
            each("operator").not_supported(toleration.operator, ("Equal", "Exists"))
        each("effect").one_of(toleration.effect, TAINT_EFFECTS)


def validate_binding_conditions(at: Place, device: Any) -> None:
    """Check the conditions for binding of a device, or of its allocation."""
    ready, failed = device.binding_conditions, device.binding_failure_conditions
    at_ready, at_failed = at("bindingConditions"), at("bindingFailureConditions")
    for where, names in ((at_ready, ready), (at_failed, failed)):
        for each, name in where.each(names, MOST_CONDITIONS):
            each.rule(name, qualified_name)
    at_ready.different(ready, str)
    at_failed.different(failed, str)
    for index, name in enumerate(failed[:MOST_CONDITIONS]):
        if name in ready[:MOST_CONDITIONS]:
            reason = "bindingFailureConditions must not overlap with bindingConditions"
            at_failed[index].invalid(name, reason)
    if failed and not ready:
        reason = "bindingConditions are required to use bindingFailureConditions"
        at_ready.invalid(None, reason)
    if ready and not failed:
        reason = "bindingFailureConditions are required to use bindingConditions"
        at_failed.invalid(None, reason)
