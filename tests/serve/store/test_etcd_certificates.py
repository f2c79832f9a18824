"""etcd with TLS and client certificates, renewed while the store is in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.lib.certificate_error import CertificateError
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from podsched.serve.store.etcd import EtcdStore, connect
from support.certificates import make_certificates


@pytest.mark.integration
async def test_a_store_goes_on_with_the_certificates_of_a_new_authority(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    options = EmbeddedEtcdOptions(
        tmp_path / "etcd", fsync=False, cert=files.cert, key=files.key, client_ca=files.ca
    )
    async with EmbeddedEtcd(options) as etcd:
        assert etcd.endpoint.startswith("https://")
        reach = EtcdOptions((etcd.endpoint,), ca=files.ca, cert=files.cert, key=files.key)
        store = await connect(reach)
        await etcd.stop()
        make_certificates(tmp_path)
        await etcd.start()
        assert (await store.get("x")).kv is None
        await store.close()


async def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    files.key.write_text("none")
    reach = EtcdOptions(("https://127.0.0.1:1",), ca=files.ca, cert=files.cert, key=files.key)
    with pytest.raises(CertificateError, match=r"tls\.key: no private key"):
        EtcdStore(reach)
