"""One module a peer, each giving ``PEER``; loaded only inside the peer's own process."""

OWN, OWN_KEPT, OWN_CACHED = "graphc", "graphc-out", "graphc-cached"
OWNS = (OWN, OWN_KEPT, OWN_CACHED)
"""Ways of using graphc, which are not compared with each other."""

PEERS = {
    OWN: ("graphc", ""),
    OWN_KEPT: ("graphc", "out"),
    OWN_CACHED: ("graphc", "cached"),
    "numpy": ("numpy", ""),
    "scipy": ("scipy", ""),
    "numexpr": ("numexpr", ""),
    "numba": ("numba", ""),
    "pytensor": ("pytensor", ""),
    "jax": ("jax", ""),
    "torch-eager": ("torch", "eager"),
    "torch": ("torch", "compile"),
    "torch-max": ("torch", "max"),
    "onnxruntime": ("onnxruntime", ""),
    "openvino": ("openvino", ""),
}
"""Of each name the module and the variant of it."""

KEEPERS = frozenset(("numexpr", "numba", "onnxruntime", "openvino"))
"""Peers that write results into buffers that are kept; they are compared with ``graphc-out``."""
