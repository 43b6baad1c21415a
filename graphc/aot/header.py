"""The C header of a library: what can be called, and how its arrays look."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphc.aot.library import DTYPES, Content, Design, Tensor
from graphc.aot.native.interface import VERSION
from graphc.aot.native.records import STATUS_TEXTS

_STATUS = (
    "OK", "BAD_ARGUMENT", "BAD_DIMS", "BAD_INDEX", "NO_MEMORY", "BAD_CPU", "BAD_WEIGHTS",
    "NO_WORKSPACE", "BAD_MATRIX",
)  # fmt: skip


def header_text(content: Content, design: Design, hosted: bool) -> str:
    """The header."""
    name = design.name
    upper = name.upper()
    lines = [
        f"/* {name}: a library written by graphc. */",
        f"#ifndef {upper}_GRAPHC_H",
        f"#define {upper}_GRAPHC_H",
        "",
        "#include <stdint.h>",
        "",
        _SHARED_TYPES.format(version=VERSION, status=_status(), dtypes=_dtypes()),
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
    ]
    lines += _places(upper, "DIM", [symbol for symbol, _, _ in content.symbols])
    for kind, tensors in _groups(content):
        lines += _places(upper, kind, [tensor.name for tensor in tensors])
        lines += _arrays(kind, tensors)
    lines += [f"typedef struct {name}_context {name}_context;", ""]
    functions = _HOSTED + _FUNCTIONS if hosted else _FUNCTIONS
    lines.append(functions.replace("NAME", name))
    lines += ["#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
    return "\n".join(lines)


def _groups(content: Content) -> tuple[tuple[str, Sequence[Tensor]], ...]:
    return (
        ("INPUT", content.inputs), ("OUTPUT", content.outputs), ("VARIABLE", content.variables),
    )  # fmt: skip


def _status() -> str:
    return ",\n".join(
        f"  GRAPHC_{name} = {number} /* {text} */"
        for number, (name, text) in enumerate(zip(_STATUS, STATUS_TEXTS, strict=True))
    )


def _dtypes() -> str:
    return ",\n".join(f"  GRAPHC_{name.upper()} = {n}" for n, name in enumerate(DTYPES))


def _places(upper: str, kind: str, names: Sequence[str]) -> list[str]:
    """Constants for positions: of what has a name that C can have, and no other has the same."""
    spelled = [re.sub(r"\W", "_", name, flags=re.ASCII).upper() for name in names]
    lines = [
        f"#define {upper}_{kind}_{each} {number}"
        for number, each in enumerate(spelled)
        if spelled.count(each) == 1
    ]
    return [*lines, f"#define {upper}_{kind}S {len(names)}", ""]


def _arrays(kind: str, tensors: Sequence[Tensor]) -> list[str]:
    lines = [
        f"   {number}: {_comment(tensor.name)}, {tensor.type.dtype.c_type}"
        f"[{', '.join(_comment(str(dim)) for dim in tensor.type.shape)}]"
        for number, tensor in enumerate(tensors)
    ]
    return [f"/* {kind.lower()}s, row by row without gaps:", *lines, "*/", ""] if lines else []


def _comment(text: str) -> str:
    """A user's word inside a comment."""
    printable = "".join(each if each.isprintable() else "?" for each in text)
    return printable.replace("*/", "* /").replace("\\", "/")


_SHARED_TYPES = """\
#ifndef GRAPHC_LIBRARY_TYPES
#define GRAPHC_LIBRARY_TYPES {version}

/* What functions give; graphc never ends the process. */
enum {{
{status}
}};

enum {{
{dtypes}
}};

typedef struct {{
  const char *name;
  int64_t least;    /* the sizes that this dim may have */
  int64_t greatest;
}} graphc_dim;

typedef struct {{
  const char *name;
  const char *shape; /* sizes and symbolic dims, "batch, 64" */
  int32_t dtype;
  int32_t rank;
}} graphc_tensor;

typedef struct {{
  int32_t dims, inputs, outputs, variables; /* how many there are */
  const graphc_dim *dim;
  const graphc_tensor *input, *output, *variable;
  const char *target; /* the processors it has code for, the best first */
}} graphc_signature;

#endif
"""

_HOSTED = """\
/* Makes a context, which holds the variables and is used by one thread at a time; contexts of one
   library share its weights. weights: the path of the file of weights, or NULL if they are
   embedded. threads: how many may run a kernel, 0 or less for one on each processor. */
int NAME_create(NAME_context **context, const char *weights, int threads);
void NAME_destroy(NAME_context *context);

"""

_FUNCTIONS = """\
/* The same in memory of the caller: NAME_context_bytes() bytes from a multiple of 64 on. weights:
   where the arrays of the file of weights begin, or NULL if they are embedded. */
int64_t NAME_context_bytes(void);
int NAME_initialise(void *memory, int64_t bytes, const void *weights, int threads);

const graphc_signature *NAME_signature(void);
const char *NAME_status_text(int status);

/* The text of the context's last error. */
const char *NAME_error(const NAME_context *context);

int NAME_set_threads(NAME_context *context, int threads);

/* dims: the size of each symbolic dim, in the order of the signature; NULL where there is none. */

/* The bytes of memory that a run at these sizes needs; more threads may need more. */
int NAME_workspace(NAME_context *context, const int64_t *dims, int64_t *bytes);

/* The sizes of an input (kind 0), an output (1) or a variable (2); shape has room for its rank. */
int NAME_shape(NAME_context *context, const int64_t *dims, int kind, int index, int64_t *shape);

/* Runs once and allocates nothing. Inputs, outputs and workspace must not overlap. After an error
   variables are as before, outputs are undefined. */
int NAME_run(NAME_context *context, const int64_t *dims, const void *const *inputs,
             void *const *outputs, void *workspace, int64_t bytes);

/* Reads and writes a variable; bytes must be its size. */
int NAME_get(NAME_context *context, int variable, void *to, int64_t bytes);
int NAME_set(NAME_context *context, int variable, const void *from, int64_t bytes);

/* For graphc's own loader. */
void *NAME_internal(int what);
"""

__all__ = ["header_text"]
