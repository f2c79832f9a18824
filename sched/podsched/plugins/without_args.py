"""The constructor of plugins that take no arguments and do not look at the cluster on their own."""

from __future__ import annotations

from typing import Any

from podsched.framework.plugin import Handle


class WithoutArgs:
    """A base class for such plugins; all others define their own ``__init__(args, handle)``."""

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        """Accept what every plugin is made from; neither is needed."""
