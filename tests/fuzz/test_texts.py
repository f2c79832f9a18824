"""Whatever text is given, the answer is a value or the documented error, and it comes soon.

Texts that people write: manifests, configurations, selectors, quantities and durations. No sockets.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from podsched.api import quantity
from podsched.api.field_selectors import check_fields, parse_field_selector
from podsched.api.kinds import KINDS
from podsched.api.manifest import (
    ManifestError,
    apply_merge_patch,
    from_manifest,
    load_documents,
    to_manifest,
)
from podsched.api.quantity import QuantityError
from podsched.api.selectors import SelectorError, parse_selector
from podsched.config.durations import format_duration, parse_duration
from podsched.config.errors import ConfigError
from podsched.config.load import load_config, to_public, to_yaml
from podsched.legacy.policy_profile import policy_configuration
from podsched.serve.server.audit.policy import parse_policy
from support.examples import examples
from support.fuzz_requests import SEEDS
from support.fuzz_texts import AUDIT_POLICY, CONFIG, POLICY, changed, text_of
from support.fuzz_values import odd_text
from support.processor_time import exceeds

pytestmark = pytest.mark.fuzz

#: Seconds of processor time that any text may take.
#: A configuration of the greatest size is read, written and read again.
_MOST_SECONDS = 8.0


def _each(requests: int, check: Callable[[random.Random], None]) -> None:
    """Call the check with as many sources of chance, each fast enough."""

    @settings(
        max_examples=requests,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**64))
    def timed(seed: int) -> None:
        began = time.process_time()
        check(random.Random(seed))
        took = time.process_time() - began
        assert not exceeds(took, _MOST_SECONDS), f"{took:.1f} s"

    timed()


def _read_manifests(text: str | bytes) -> None:
    try:
        documents = load_documents(text)
    except ManifestError as error:
        assert str(error)
        return
    for document in documents:
        for strict in (False, True):
            try:
                message = from_manifest(document, strict=strict).message
            except ManifestError as error:
                assert str(error)
                continue
            shown = to_manifest(message)
            again = from_manifest(json.loads(json.dumps(shown))).message
            assert again == message, "what is shown reads back unchanged"


def test_any_manifest_is_read_or_refused_with_its_problems(requests: int) -> None:
    manifests = [to_manifest(seed) for seed in SEEDS]

    def check(rng: random.Random) -> None:
        _read_manifests(text_of(changed(rng.choice(manifests), rng), rng))

    _each(requests, check)


def test_any_merge_patch_is_applied_or_refused(requests: int) -> None:
    def check(rng: random.Random) -> None:
        seed = rng.choice(SEEDS)
        try:
            patched = apply_merge_patch(seed, changed(to_manifest(seed), rng)).message
        except ManifestError as error:
            assert str(error)
        else:
            to_manifest(patched)

    _each(requests, check)


@examples(500)
@given(st.one_of(st.text(max_size=200), st.binary(max_size=200)))
@example("\ud800")
@example(b"\xff\xfe\x00")
@example("a: &a [*a]")
@example("? {a: 1}\n: b")
@example("!!binary x")
@example("- !!set {a}")
@example("a: !!int x")
@example("a: !!float .")
@example("a: !!timestamp x")
@example("a: !!bool x")
@example("!!omap [a]")
@example("!!pairs [a]")
@example("<<: 1")
@example("a: 1" + "0" * 5000)
def test_any_text_is_a_manifest_or_none(text: str | bytes) -> None:
    _read_manifests(text)


def test_any_configuration_is_loaded_or_refused_with_its_errors(requests: int) -> None:
    def check(rng: random.Random) -> None:
        text = text_of(changed(CONFIG, rng), rng)
        try:
            config = load_config(text)
        except ConfigError as error:
            assert error.errors
            assert str(error)
            return
        assert load_config(to_yaml(config)).effective == config.effective
        json.dumps(to_public(config), allow_nan=False)

    load_config(CONFIG)
    _each(requests, check)


def test_any_policy_becomes_a_configuration_or_is_refused_with_its_errors(requests: int) -> None:
    def check(rng: random.Random) -> None:
        try:
            documents = load_documents(text_of(changed(POLICY, rng), rng))
        except ManifestError:
            return
        for document in documents:
            try:
                load_config(policy_configuration(document))
            except ConfigError as error:
                assert str(error)

    load_config(policy_configuration(POLICY))
    _each(requests // 8, check)


def test_any_audit_policy_is_read_or_refused_with_its_errors(requests: int) -> None:
    def check(rng: random.Random) -> None:
        try:
            assert parse_policy(text_of(changed(AUDIT_POLICY, rng), rng)).rules is not None
        except ConfigError as error:
            assert str(error)

    assert len(parse_policy(json.dumps(AUDIT_POLICY)).rules) == 3
    _each(requests // 8, check)


_PIECES = (
    "app", "=", "==", "!=", "!", " in ", " notin ", "(", ")", ",", "web", ">", "<", "5", " ", "\\",
    "metadata.name", "spec.nodeName", "status.phase", "metadata.labels", ".", "9" * 30, "\x00",
)  # fmt: skip


def _selector(rng: random.Random) -> str:
    if rng.random() < 0.3:
        return odd_text(rng) * rng.choice((1, 1, 2, 500))
    return "".join(rng.choices(_PIECES, k=rng.randrange(12))) * rng.choice((1, 1, 1, 1000))


def test_any_label_selector_is_compiled_or_refused(requests: int) -> None:
    def check(rng: random.Random) -> None:
        try:
            selector = parse_selector(_selector(rng))
        except SelectorError as error:
            assert str(error)
        else:
            assert selector.matches({"app": "web", "a": "9" * 30}) in (True, False)

    _each(requests, check)


def test_any_field_selector_is_compiled_or_refused(requests: int) -> None:
    def check(rng: random.Random) -> None:
        seed = rng.choice(SEEDS)
        try:
            selector = parse_field_selector(_selector(rng))
            check_fields(selector, KINDS[seed.DESCRIPTOR.name].message.DESCRIPTOR)
        except SelectorError as error:
            assert str(error)
        else:
            assert selector.matches(seed) in (True, False)

    _each(requests, check)


_DIGITS = ("1", "0", "9" * 20, "9" * 120, ".", "-", "+", "e", "E", "Ki", "m", "n", "u", "k", "Ei",
           "s", "h", "ms", "µs", "!", " ", "\u0663", "\x00", "e9", "E-9999", "_")  # fmt: skip


def test_any_quantity_and_duration_is_read_or_refused(requests: int) -> None:
    def check(rng: random.Random) -> None:
        text = "".join(rng.choices(_DIGITS, k=rng.randrange(6))) * rng.choice((1, 1, 1, 3000))
        try:
            exact = quantity.parse(text)
        except QuantityError:
            pass
        else:
            assert -(2**63) < quantity.value(text) < 2**63
            assert -(2**63) < quantity.milli_value(text) < 2**63
            if abs(exact) < 2**63:  # larger ones may be written shorter than they are printed
                assert quantity.parse(quantity.format_decimal(exact)) == exact
        try:
            seconds = parse_duration(text)
        except ValueError as error:
            assert "invalid duration" in str(error)
        else:
            assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-6)

    _each(requests, check)
