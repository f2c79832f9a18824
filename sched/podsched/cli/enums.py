"""Values of options that several commands share."""

from __future__ import annotations

from enum import StrEnum


class CreateMode(StrEnum):
    """How a benchmark creates its pods."""

    BATCH = "batch"
    SINGLE = "single"
    STREAM = "stream"


class BenchBackend(StrEnum):
    """Which API a benchmark's scheduler and client speak."""

    PODSCHED = "podsched"
    KUBERNETES = "kubernetes"


class Cascade(StrEnum):
    """What becomes of the objects that a deleted one owns, as kubectl calls it."""

    BACKGROUND = "background"
    FOREGROUND = "foreground"
    ORPHAN = "orphan"


class Fault(StrEnum):
    """What ``sched bench Failover`` does to the leader."""

    SIGKILL = "SIGKILL"
    SIGTERM = "SIGTERM"
    SIGSTOP = "SIGSTOP"
    PARTITION = "partition"
