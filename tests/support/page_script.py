"""The page's own modules in a JavaScript engine without a browser: what they compute."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import quickjs

STATIC = Path(__file__).parents[2] / "sched" / "podsched" / "ask" / "web" / "static"


class Script:
    """Modules as one script: give each after those that it imports."""

    def __init__(self, *names: str) -> None:
        self._context = quickjs.Context()
        for name in names:
            source = (STATIC / f"{name}.js").read_text()
            source = re.sub(r"^import .*?;\n", "", source, flags=re.MULTILINE | re.DOTALL)
            self._context.eval(re.sub(r"^export ", "", source, flags=re.MULTILINE))

    def run(self, expression: str, **values: Any) -> Any:
        """Return the value of an expression, in which the values have their names."""
        given = ", ".join(map(json.dumps, values.values()))
        called = f"(({', '.join(values)}) => ({expression}))({given})"
        found = self._context.eval(f"JSON.stringify({called})")
        return None if found is None else json.loads(found)

    def settle(self) -> None:
        """Let everything that awaits something go on."""
        while self._context.execute_pending_job():
            pass

    def do(self, statements: str, **values: Any) -> None:
        """Run statements."""
        self.run(f"(() => {{ {statements} }})()", **values)
