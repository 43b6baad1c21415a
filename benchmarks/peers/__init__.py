"""One module a peer, each giving ``PEER``; loaded only inside the peer's own process."""

PEERS = ("graphc", "numpy", "jax", "onnxruntime")
