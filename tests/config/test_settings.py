import ast
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

import podsched
from podsched.config.errors import ConfigError
from podsched.config.settings import (
    AgentSettings,
    ControllerSettings,
    EvaluatorSettings,
    SchedulerSettings,
    TelemetrySettings,
)
from podsched.serve.server.settings import ServerSettings


def test_the_defaults_are_pinned() -> None:
    evaluation = {
        "evaluator": "auto",
        "ray_address": "",
        "ray_from_nodes": 50_000,
        "shards": 0,
        "ray_call_timeout": 1.0,
        "ray_retry_period": 5.0,
        "binder": "auto",
        "without": (),
    }
    assert asdict(EvaluatorSettings()) == evaluation
    assert asdict(SchedulerSettings()) == {
        "api_endpoints": ("127.0.0.1:7443",),
        "identity": "",
        "evaluation": evaluation,
        "max_batch": 256,
        "pod_max_in_unschedulable_pods_duration": 300.0,
        "audit_period": 1.0,
        "leader_priority": 0,
        "decision_log": "memory",
        "decision_log_size": 0,
        "require_queue": "",
    }
    assert asdict(TelemetrySettings()) == {
        "log_format": "text",
        "log_level": "info",
        "log_modules": (),
        "feature_gates": {},
        "disabled_metrics": frozenset(),
        "otlp_endpoint": "",
        "trace_sample_ratio": 0.01,
        "health_host": "127.0.0.1",
        "health_port": 0,
        "open_paths": (),
    }
    assert asdict(ControllerSettings()) == {
        "node_monitor_period": 5.0,
        "node_monitor_grace_period": 50.0,
        "node_eviction_rate": 0.1,
        "terminated_pod_gc_threshold": 12_500,
        "pod_gc_period": 20.0,
        "job_gangs": False,
        "controllers": ("*",),
    }
    assert asdict(AgentSettings()) == {
        "api_endpoints": ("127.0.0.1:7443",),
        "nodes": 0,
        "node_name_prefix": "node-",
        "node_cpu": "4",
        "node_memory": "32Gi",
        "node_pods": 110,
        "node_devices": (),
        "heartbeat_period": 10.0,
        "run_delay": 0.0,
        "job_seconds": 5.0,
        "zones": (),
        "adopt": False,
        "volume_controller": True,
        "provisioners": ("podsched.io/hollow",),
    }


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: TelemetrySettings(
                log_format="xml",  # type: ignore[arg-type]
                log_level="loud",  # type: ignore[arg-type]
                otlp_endpoint="host:4317",
                trace_sample_ratio=2,
                health_host="",
                health_port=70000,
            ),
            [
                "log_format",
                "log_level",
                "otlp_endpoint",
                "trace_sample_ratio",
                "health_host",
                "health_port",
            ],
        ),
        (lambda: TelemetrySettings(otlp_endpoint="http://[::1"), ["otlp_endpoint"]),
        (
            lambda: EvaluatorSettings(
                evaluator="gpu",  # type: ignore[arg-type]
                shards=-1,
                ray_call_timeout=0,
            ),
            ["evaluator", "shards", "ray_call_timeout"],
        ),
        (
            lambda: SchedulerSettings(api_endpoints=(), max_batch=0, audit_period=-1),
            ["api_endpoints", "max_batch", "audit_period"],
        ),
        (
            lambda: ControllerSettings(controllers=("*", "-deployment-controller")),
            ["controllers"],
        ),
        (
            lambda: ControllerSettings(node_monitor_period=50),
            ["node_monitor_grace_period"],
        ),
        (
            lambda: AgentSettings(nodes=-1, node_pods=0, node_cpu=""),
            ["nodes", "node_pods", "node_cpu"],
        ),
    ],
)
def test_all_errors_are_reported_at_once(make: Callable[[], Any], expected: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert [error.path for error in caught.value.errors] == expected


@pytest.mark.parametrize(
    ("given", "runs", "runs_beside"),
    [
        (("*",), True, False),
        ((), False, False),
        (("*", "-replicaset-controller"), False, False),
        (("*", "replicaset-controller"), True, True),
        (("disruption-controller",), False, False),
        (("-replicaset-controller", "replicaset-controller"), False, False),
    ],
)
def test_a_controller_runs_as_the_first_word_about_it_says(
    given: tuple[str, ...], runs: bool, runs_beside: bool
) -> None:
    settings = ControllerSettings(controllers=given)
    assert settings.runs("replicaset") is runs
    assert settings.runs("replicaset", elsewhere=True) is runs_beside


@pytest.mark.parametrize("endpoint", ["host", ":1", "host:", "http://host:1", "host:x", "u@h:1"])
def test_an_endpoint_is_host_and_port(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"api_endpoints\[1\]: .*must be host:port"):
        SchedulerSettings(api_endpoints=("127.0.0.1:1", endpoint))


def test_an_ipv6_endpoint_is_in_brackets() -> None:
    SchedulerSettings(api_endpoints=("[::1]:7080", "localhost:1"))


@pytest.mark.parametrize("name", ["heartbeat_period", "job_seconds"])
def test_a_time_that_is_no_number_is_refused(name: str) -> None:
    settings: Any = AgentSettings
    with pytest.raises(ConfigError, match="must"):
        settings(**{name: float("nan")})


def test_every_setting_is_read_somewhere() -> None:
    settings = (
        AgentSettings,
        ControllerSettings,
        EvaluatorSettings,
        SchedulerSettings,
        ServerSettings,
        TelemetrySettings,
    )
    declared = {field.name for kind in settings for field in fields(kind)}
    read = {
        node.attr
        for path in Path(podsched.__file__).parent.rglob("*.py")
        if path.name != "settings.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert declared - read == set()
