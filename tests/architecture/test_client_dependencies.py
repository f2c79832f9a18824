"""The client is slim: nothing of it needs what the processes need."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Where the name to import is not the name to install.
_IMPORTED = {
    "aetcd": "aetcd",
    "grpcio-health-checking": "grpc_health",
    "grpcio-reflection": "grpc_reflection",
    "grpcio-status": "grpc_status",
    "opentelemetry-exporter-otlp-proto-grpc": "opentelemetry",
    "opentelemetry-exporter-prometheus": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pyjwt": "jwt",
}
CLIENT = (
    "podsched.serve.client.api_client podsched.serve.client.sync podsched.serve.client.informer "
    "podsched.cli.main podsched.cli.get podsched.cli.objects podsched.cli.edit podsched.cli.drain "
    "podsched.cli.wait podsched.cli.events podsched.cli.status"
)


def test_the_client_imports_nothing_that_only_the_server_extra_installs() -> None:
    names = [
        re.split("[><=\\[]", item)[0].lower() for item in PROJECT["optional-dependencies"]["server"]
    ]
    only_server = sorted({_IMPORTED.get(name, name) for name in names})
    code = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {only_server!r}:
            raise ImportError("only podsched[server] has " + name)
sys.meta_path.insert(0, Refuse())
for module in {CLIENT.split()!r}:
    __import__(module)
import podsched
print([getattr(podsched, name).__name__ for name in podsched.__all__])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "numpy" in only_server and "ray" in only_server
