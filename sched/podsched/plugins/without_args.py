"""The constructor of plugins that need neither arguments nor a handle."""

from __future__ import annotations

from typing import Any

from podsched.framework.plugin import Handle


class WithoutArgs:
    """A base class of plugins; plugins without it have an ``__init__(args, handle)``."""

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        pass
