"""What can become of an attempt to schedule a pod, as the decision log says it."""

from __future__ import annotations

from typing import Final

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
ERROR: Final = "Error"
REJECTED: Final = "Rejected"
OVERTAKEN: Final = "Overtaken"
GONE: Final = "Gone"
