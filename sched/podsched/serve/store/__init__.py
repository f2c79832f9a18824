"""The only code that talks to etcd.

``etcd.connect(EtcdOptions)`` opens the store, ``embedded.EmbeddedEtcd`` runs an etcd of its own.
The contract is ``protocol``; ``podsched.testing.memory_store`` keeps it in memory, for tests.
"""
