"""The settings of job queues: their defaults, and what is refused."""

from __future__ import annotations

import pytest

from podsched.config.errors import ConfigError
from podsched.config.load import load_config

_FINAL, _INITIAL = "LessThanOrEqualToFinalShare", "LessThanInitialShare"


@pytest.mark.parametrize("timeout", [{}, {"timeout": "0s"}])
def test_pods_have_half_an_hour_to_become_ready_unless_a_timeout_is_set(
    timeout: dict[str, str],
) -> None:
    settings = load_config({"queues": {"waitForPodsReady": timeout}}).queues.wait_for_pods_ready
    assert settings is not None
    assert settings.timeout == 1800


@pytest.mark.parametrize("order", [[], [_FINAL], [_INITIAL], [_FINAL, _INITIAL]])
def test_the_strategies_of_fair_sharing_are_one_of_three_lists(order: list[str]) -> None:
    settings = load_config({"queues": {"fairSharing": {"preemptionStrategies": order}}})
    assert settings.queues.fair_sharing is not None
    assert settings.queues.fair_sharing.preemption_strategies == tuple(order or [_FINAL, _INITIAL])


@pytest.mark.parametrize("order", [[_INITIAL, _FINAL], [_FINAL, _FINAL], ["LessThanShare"]])
def test_other_lists_of_strategies_are_refused(order: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"queues": {"fairSharing": {"preemptionStrategies": order}}})
    [text] = map(str, caught.value.errors)
    assert text.startswith("queues.fairSharing.preemptionStrategies: Unsupported value")
    assert f'"{_FINAL},{_INITIAL}"' in text
