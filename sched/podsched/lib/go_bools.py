"""The texts that Go's ParseBool reads, with their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GO_BOOLS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
