"""The Service kubernetes of API servers that other machines reach."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import Service
from podsched.serve.server.settings import ServerSettings
from podsched.testing.memory_store import MemoryStore
from support.api_servers import start_api_server
from support.certificates import make_certificates
from support.stand_in_kubelet import address_of_this_machine

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not address_of_this_machine(), reason="needs an address beside loopback"),
]


@pytest.mark.parametrize("loopback", [False, True])
@pytest.mark.parametrize("tls", [False, True])
async def test_what_pods_could_use_is_advertised(tmp_path: Path, tls: bool, loopback: bool) -> None:
    address = "127.0.0.1" if loopback else address_of_this_machine()
    files = make_certificates(tmp_path, address)
    settings = ServerSettings(
        kube_listen=f"{address}:0",
        tls_cert=str(files.cert) if tls else "",
        tls_key=str(files.key) if tls else "",
        tls_client_ca=str(files.ca) if tls else "",
    )
    store = MemoryStore()
    server = await start_api_server(settings, store)
    try:
        assert (server.advertiser is not None) == (tls and not loopback)
        if server.advertiser is not None:
            await server.advertiser.advertise()
            await server.core.reflector.wait_until_fresh()
            found = await server.core.storage.get(KINDS["Service"], "default/kubernetes")
            service = cast(Service, found.message)
            assert service.spec.cluster_ip == address
            assert service.spec.ports[0].port == server.kube_port
    finally:
        await server.stop(0.1)
        await store.close()
