"""Options for a Policy of kube-scheduler v1.16, and the resulting configuration."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podsched.api.objects import ConfigMap
from podsched.cli.client import with_client
from podsched.cli.errors import USAGE, fail
from podsched.cli.output import os_error_text
from podsched.config.errors import ConfigError
from podsched.config.flags import flag
from podsched.config.load import MAX_BYTES, read_document
from podsched.legacy.policy import is_policy
from podsched.legacy.policy_profile import (
    MAX_PD_VOLUMES_VARIABLE,
    max_pd_volumes,
    policy_configuration,
    provider_configuration,
)
from podsched.lib.files import FileTooLarge, read_file
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import NotFound

_PANEL = "Policies of kube-scheduler v1.16 and before"
_KEY = "policy.cfg"
_KUBE_SYSTEM = "kube-system"


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """The source of the configuration; at most one of the last three is given."""

    config: Path | None = None
    policy_file: Path | None = flag(None, "FILE", _PANEL, names="--policy-config-file")
    """Policy file, JSON or YAML; in place of the profiles of the configuration."""
    policy_configmap: str = flag("", "[NS/]NAME", _PANEL)
    """ConfigMap with a Policy under policy.cfg, in kube-system unless it names another namespace.
    It is read once, from the API server."""
    algorithm_provider: str = flag("", "NAME", _PANEL)
    """Use the predicates and priorities of DefaultProvider or ClusterAutoscalerProvider."""
    server: str = ""
    client: ClientOptions | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the configuration that the command line sets instead of the file."""
    honoured: Collection[str] = ()
    """Fields that have an effect here, although they usually have none and cause a warning."""

    @property
    def given(self) -> bool:
        """Whether any of it is given."""
        return any((self.config, self.policy_file, self.policy_configmap, self.algorithm_provider))

    @property
    def name(self) -> str:
        """The name for error messages."""
        if self.policy_configmap:
            return f"ConfigMap {'/'.join(_configmap(self.policy_configmap))}"
        if self.algorithm_provider:
            return f"--algorithm-provider {self.algorithm_provider}"
        return str(self.policy_file or self.config or ("command line" if self.overrides else ""))


def document_of(source: ConfigSource) -> dict[str, Any]:
    """Return the KubeSchedulerConfiguration as plain data; {} if nothing is given.

    A Policy is translated. The command line overrides files. Exits for contradicting options and
    unreadable files; raises ConfigError with all mistakes.
    """
    document = _written(source)
    for key, value in source.overrides.items():
        below = document.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = {**below, **value}
        document[key] = value
    return document


def _written(source: ConfigSource) -> dict[str, Any]:
    old = [source.policy_file, source.policy_configmap, source.algorithm_provider]
    if sum(map(bool, old)) > 1:
        fail(
            "--policy-config-file, --policy-configmap and --algorithm-provider: use one of them",
            USAGE,
        )
    base = {} if source.config is None else _read(source.config)
    if is_policy(base):
        if any(old):
            fail(f"{source.config} is a Policy: it cannot be combined with another one", USAGE)
        return policy_configuration(base, limit=_limit(), source=source.name)
    if not any(old):
        return base
    for key in ("profiles", "extenders"):
        if base.get(key):
            fail(f"{source.config}: {key}: remove them, because the Policy defines them", USAGE)
    if source.algorithm_provider:
        return {**base, **provider_configuration(source.algorithm_provider, limit=_limit())}
    policy = _read(source.policy_file) if source.policy_file else _policy_in_configmap(source)
    return {**base, **policy_configuration(policy, limit=_limit(), source=source.name)}


def _limit() -> int:
    return max_pd_volumes(os.environ.get(MAX_PD_VOLUMES_VARIABLE, ""))


def text_of(path: Path) -> str:
    """Return a file's text; exit if it cannot be a configuration."""
    try:
        return read_file(path, MAX_BYTES).decode()
    except FileTooLarge as exc:
        fail(f"{path}: too large for a configuration, {exc.strerror}", USAGE)
    except OSError as exc:
        fail(f"{path}: {os_error_text(exc)}", USAGE)
    except UnicodeDecodeError:
        fail(f"{path}: not UTF-8 text", USAGE)


def _read(path: Path) -> dict[str, Any]:
    return _parsed(text_of(path), str(path))


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return dict(read_document(text))
    except ConfigError as error:
        raise ConfigError(error.errors, name) from None


def _configmap(option: str) -> tuple[str, str]:
    namespace, _, name = option.rpartition("/")
    if not name or "/" in namespace:
        fail(f"--policy-configmap {option}: must be NAMESPACE/NAME", USAGE)
    return namespace or _KUBE_SYSTEM, name


def _policy_in_configmap(source: ConfigSource) -> dict[str, Any]:
    namespace, name = _configmap(source.policy_configmap)

    async def read(client: ApiClient) -> Any:
        try:
            return await client.get("ConfigMap", name, namespace)
        except NotFound:
            fail(f"--policy-configmap: there is no {source.name}")

    found: ConfigMap = with_client(source.server, read, source.client)
    if _KEY not in found.data:
        fail(f'--policy-configmap: {source.name} has no data under "{_KEY}"')
    return _parsed(found.data[_KEY], source.name)
