from podsched.telemetry.former_metrics import FormerMetrics
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import SchedulerMetrics


def test_former_names_tell_what_their_successors_do() -> None:
    registry = MetricRegistry()
    scheduler = SchedulerMetrics(registry)
    FormerMetrics(registry, scheduler)
    scheduler.scheduling_attempt_duration_seconds.labels("scheduled", "p").observe(0.25)
    points = scheduler.framework_extension_point_duration_seconds
    points.labels("Bind", "Success", "p").observe(0.01)
    points.labels("Bind", "Error", "p").observe(0.02)
    points.labels("Filter", "Success", "p").observe(0.02)
    plugins = scheduler.plugin_execution_duration_seconds
    plugins.labels("VolumeBinding", "Reserve", "Success").observe(0.001)
    plugins.labels("NodePorts", "Filter", "Success").observe(0.001)
    for _ in range(2):  # reading does not count
        text = registry.render()[0].decode()
    for line in (
        'scheduler_e2e_scheduling_duration_seconds_count{profile="p",result="scheduled"} 1.0',
        "scheduler_binding_duration_seconds_count 2.0",
        "scheduler_binding_duration_seconds_sum 0.03",
        'scheduler_volume_scheduling_duration_seconds_count{operation="assume"} 1.0',
        'scheduler_volume_scheduling_duration_seconds_count{operation="predicate"} 0.0',
    ):
        assert line in text
