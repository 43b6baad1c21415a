"""graphc: a static, define-then-run tensor graph compiler for CPUs.

    import graphc as gx

    with gx.Graph() as g:
        x = gx.placeholder((None, 4), name="x")
        y = gx.nn.softmax(x @ w + b)
    with gx.Session(g) as session:
        session.run(y, {x: batch})

Names load when first used, so that importing one module does not import all.
"""

from __future__ import annotations

import importlib
from typing import Any

from graphc.base.siblings import check_siblings
from graphc.base.target import warn_of_platform

check_siblings()
warn_of_platform()

_MODULES = {
    "aot": "graphc.aot",
    "array_api": "graphc.frontend.array_api",
    "debug": "graphc.debug",
    "fft": "graphc.fft",
    "linalg": "graphc.linalg",
    "nn": "graphc.nn",
    "optim": "graphc.optim",
    "random": "graphc.random",
    "special": "graphc.special",
    "testing": "graphc.testing",
    "training": "graphc.session.training",
}

_NAMES = {
    "Graph": ("graphc.ir.recorder", "Recorder"),
    "default_graph": ("graphc.ir.recorder", "default_graph"),
    "reset_default_graph": ("graphc.ir.recorder", "reset_default_graph"),
    "Value": ("graphc.ir.value", "Value"),
    "Session": ("graphc.session.session", "Session"),
    "Executable": ("graphc.session.executable", "Executable"),
    "Options": ("graphc.base.options", "Options"),
    "Variable": ("graphc.frontend.state", "Variable"),
    "Effect": ("graphc.ir.effect", "Effect"),
    "variable": ("graphc.frontend.state", "variable"),
    "group": ("graphc.frontend.state", "group"),
    "control_dependencies": ("graphc.frontend.state", "control_dependencies"),
    "cond": ("graphc.frontend.control_flow", "cond"),
    "while_loop": ("graphc.frontend.control_flow", "while_loop"),
    "custom_gradient": ("graphc.frontend.custom_derivatives", "custom_gradient"),
    "custom_jvp": ("graphc.frontend.custom_derivatives", "custom_jvp"),
    "implicit": ("graphc.frontend.implicit", "implicit"),
    "checkpoint": ("graphc.frontend.checkpoint", "checkpoint"),
    "fori_loop": ("graphc.frontend.loops", "fori_loop"),
    "scan": ("graphc.frontend.loops", "scan"),
    "map": ("graphc.frontend.loops", "map_"),
    "switch": ("graphc.frontend.loops", "switch"),
    "case": ("graphc.frontend.loops", "case"),
    "associative_scan": ("graphc.frontend.loops", "associative_scan"),
    "gradients": ("graphc.frontend.differentiate", "gradients"),
    "jvp": ("graphc.frontend.differentiate", "jvp"),
    "vjp": ("graphc.frontend.derivatives", "vjp"),
    "hvp": ("graphc.frontend.derivatives", "hvp"),
    "jacobian": ("graphc.frontend.derivatives", "jacobian"),
    "hessian": ("graphc.frontend.derivatives", "hessian"),
    "value_and_gradients": ("graphc.frontend.derivatives", "value_and_gradients"),
    "save": ("graphc.frontend.saving", "save"),
    "host_call": ("graphc.frontend.host_calls", "host_call"),
    "print": ("graphc.frontend.host_calls", "print_"),
    "check": ("graphc.frontend.host_calls", "check"),
    "summary": ("graphc.frontend.host_calls", "summary"),
    "load": ("graphc.frontend.saving", "load"),
}

_ERRORS = (
    "ArtifactError", "AxisError", "CheckError", "ConcreteValueError", "DTypeError", "FeedError",
    "FileError", "GradientError", "GraphError", "GraphcError", "GraphcWarning", "HostCallError",
    "IndexRangeError", "LinAlgError", "NameLookupError", "NumericsError", "ParseError",
    "ShapeError", "UnsupportedError", "VerifyError",
)  # fmt: skip

_DTYPES = (
    "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _NAMES:
        module, attribute = _NAMES[name]
        found = getattr(importlib.import_module(module), attribute)
    elif name in _ERRORS:
        found = getattr(importlib.import_module("graphc.base.errors"), name)
    elif name in _DTYPES or name in _storage_names():
        found = getattr(importlib.import_module("graphc.ir.dtypes"), name)
    else:
        if name.startswith("_"):
            raise AttributeError(f"module 'graphc' has no attribute {name!r}")
        try:
            found = importlib.import_module("graphc.ir.surface").surface_function(name)
        except KeyError:
            raise AttributeError(
                f"module 'graphc' has no attribute {name!r}{_close_to(name)}"
            ) from None
    globals()[name] = found
    return found


def _storage_names() -> tuple[str, ...]:
    names: tuple[str, ...] = importlib.import_module("graphc.ir.dtypes").STORAGE_NAMES
    return names


def _close_to(name: str) -> str:
    """What to do instead of a name, or the known ones, of some modules too, that it may mean."""
    from graphc.base.elsewhere import instead_of

    spellings = {known: f"gx.{known}" for known in __dir__()}
    for module in ("optim", "linalg"):
        for known in importlib.import_module(_MODULES[module]).__all__:
            spellings.setdefault(known, f"gx.{module}.{known}")
    return instead_of(name, spellings)


def __dir__() -> list[str]:
    surface = importlib.import_module("graphc.ir.surface")
    dtypes = {*_DTYPES, *_storage_names()}
    return sorted({*_MODULES, *_NAMES, *_ERRORS, *dtypes, *surface.surface_names(), "__version__"})
