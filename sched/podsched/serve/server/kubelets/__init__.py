"""Requests to kubelets: where a node's kubelet is, and a client of it.

``addresses`` chooses the address and checks it, ``client`` sends requests, ``relay`` copies bytes
between two connections. Who may send what is decided before, in ``rest``.
"""
