"""Change a scheduler's configuration without a restart: validate it, then continue with it.

    SIGHUP: the files are read again --.
                                        >-- validate --valid--> apply (TermRunner.reconfigure)
    ApplyConfig: text from a client ---'        '--invalid--> all mistakes are reported

Some fields cannot change while the process runs (FIXED). A client's text may leave them out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from podsched.config.errors import ConfigError, FieldError, forbidden
from podsched.config.load import (
    SchedulerConfiguration,
    read_document,
    to_plain,
)
from podsched.decide.runtime.user_plugins import load_usable
from podsched.framework.plugin import PluginError
from podsched.lib.tasks import TaskSet
from podsched.registry import factories
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import ConfigMetrics
from podsched.term.state import build_state
from podsched.v1.scheduling_pb2 import Answer, ConfigOutcome, Question, ReplicaState

_log = get_logger("replica")

#: Fields that cannot change while the process runs, and why.
FIXED: Final[Mapping[str, str]] = {
    "leaderElection": "the replicas race for this lock with these times",
    "clientConnection": "the connections are open",
    "delayCacheUntilActive": "the informer has been started",
    "enableProfiling": "the paths of the health server are fixed",
    "enableContentionProfiling": "the paths of the health server are fixed",
}
_RESTART = "cannot change while the scheduler runs ({}): restart it"


class Reconfiguring:
    """Applies new configurations one after another."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        apply: Callable[[SchedulerConfiguration], Awaitable[None]],
        read_again: Callable[[], SchedulerConfiguration] | None,
        replica: Callable[[], ReplicaState],
        metrics: ConfigMetrics,
    ) -> None:
        """``read_again`` reads the process's files; None if it has none."""
        self.config = config
        self._apply = apply
        self._read_again = read_again
        self._replica = replica
        self._metrics = metrics
        self._turn = asyncio.Lock()
        self._asked = asyncio.Event()
        self._tasks = TaskSet("another configuration")

    # ------------------------------------------------------------------ SIGHUP

    def request(self) -> None:
        """Request that the files are read again; for a signal handler."""
        self._asked.set()

    async def run(self) -> None:
        """Read the files again on each request, until cancelled or a change fails half-way."""
        self._tasks.start(self._read_on_request(), "read files again", endless=True)
        await self._tasks.run()

    async def _read_on_request(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            if self._read_again is None:
                _log.warning("There is no configuration file to read again")
                continue
            await self._take(self._read_again, validate_only=False)

    # ------------------------------------------------------------------ ApplyConfig

    async def answer(self, question: Question) -> AsyncGenerator[Answer, None]:
        """Answer an ApplyConfig question."""
        request = question.apply_config
        read = partial(self._completed, request.scheduler_configuration)
        yield Answer(config=await self._take(read, validate_only=request.validate_only))

    def _completed(self, text: str) -> SchedulerConfiguration:
        """Return the configuration in a text. Raises ConfigError."""
        document = dict(read_document(text))
        now = to_plain(self.config)
        kept = {key: now[key] for key in FIXED if key in now and key not in document}
        return load_usable({**document, **kept}, factories())

    # ------------------------------------------------------------------ both

    async def _take(
        self, read: Callable[[], SchedulerConfiguration], *, validate_only: bool
    ) -> ConfigOutcome:
        """Validate what ``read`` returns, apply it unless ``validate_only``, return the outcome."""
        state = self._replica()
        outcome = ConfigOutcome(replica=state.identity, leading=state.leading)
        try:
            # In a thread: the largest permitted file takes two seconds.
            async with self._turn:
                config = await asyncio.to_thread(self._checked, read)
        except (ConfigError, PluginError, OSError) as mistakes:
            outcome.errors.extend(str(mistakes).splitlines())
            if not validate_only:
                self._metrics.reloads.labels("refused").inc()
                _log.error("The configuration is refused; the old one stays",
                           errors=list(outcome.errors))  # fmt: skip
            return outcome
        outcome.warnings.extend(config.warnings)
        outcome.profiles.extend(profile.scheduler_name for profile in config.profiles)
        if not validate_only:
            # The configuration takes effect even if the caller does not wait for that.
            await asyncio.shield(self._tasks.start(self._put_in_effect(config), "apply"))
            outcome.applied = True
        return outcome

    async def _put_in_effect(self, config: SchedulerConfiguration) -> None:
        # The lock is held here, not by the caller, who may be cancelled meanwhile.
        async with self._turn:
            await self._apply(config)
            self.config = config
        self._metrics.reloads.labels("applied").inc()
        profiles = [profile.scheduler_name for profile in config.profiles]
        _log.info("Another configuration is in effect", profiles=profiles)

    def _checked(self, read: Callable[[], SchedulerConfiguration]) -> SchedulerConfiguration:
        config = read()
        if fixed := list(_changed(to_plain(self.config), to_plain(config))):
            raise ConfigError(fixed)
        try:
            build_state(config, factories(), seed=0)
        except Exception as bug:
            # Later it would end the process, and with a client's text all replicas.
            raise PluginError(f"no scheduling state can be built: {bug!r}") from bug
        return config


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield an error for each field that would change although it cannot."""
    for field, why in FIXED.items():
        before, after = old.get(field), new.get(field)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            for name in sorted({**before, **after}):
                if before.get(name) != after.get(name):
                    yield forbidden(f"{field}.{name}", _RESTART.format(why))
        else:
            yield forbidden(field, _RESTART.format(why))
