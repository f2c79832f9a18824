"""The possible outcomes of a scheduling attempt, as in the decision log."""

from __future__ import annotations

from typing import Final

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
ERROR: Final = "Error"
REJECTED: Final = "Rejected"
OVERTAKEN: Final = "Overtaken"
GONE: Final = "Gone"
