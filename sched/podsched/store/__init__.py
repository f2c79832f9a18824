"""The only code that talks to etcd, and its verified in-memory fake.

`etcd.connect(EtcdOptions)` opens the real store, `memory.MemoryStore()` is the fake, and
`embedded.EmbeddedEtcd` runs an etcd of our own. Both stores keep the contract of `protocol`.
"""
