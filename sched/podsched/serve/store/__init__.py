"""The only code that talks to etcd.

``etcd.connect(EtcdOptions)`` opens the store; ``embedded.EmbeddedEtcd`` runs a private etcd.
``protocol`` defines the contract; ``podsched.testing.memory_store`` implements it in memory.
"""
