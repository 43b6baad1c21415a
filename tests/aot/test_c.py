"""Libraries from C and C++: the header compiles without a warning, no Python is in the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from libraries import compiled, library_of, ran
from tools import tool

import graphc as gx
from graphc.base.target import named

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

int main(int count, char **arguments) {
  static float x[4 * 6];
  float y[4 * 3];
  int64_t dims[NET_DIMS], bytes = 0, shape[2];
  const void *inputs[NET_INPUTS];
  void *outputs[NET_OUTPUTS], *workspace;
  net_context *context = NULL;
  int status, i;
  const graphc_signature *signature = net_signature();
  for (i = 0; i < 4 * 6; i++) x[i] = (float)i / 8 - 1;
  inputs[NET_INPUT_X] = x;
  outputs[0] = y;
  dims[NET_DIM_BATCH] = 4;
  printf("%s %s [%s] %s\\n", signature->input[0].name, signature->target,
         signature->output[0].shape, signature->dim[0].name);
  status = net_create(&context, count > 1 ? arguments[1] : NULL, 1);
  if (status != GRAPHC_OK) {
    printf("%d %s\\n", status, net_status_text(status));
    return 3;
  }
  status = net_workspace(context, dims, &bytes);
  if (status != GRAPHC_OK) return 4;
  workspace = malloc((size_t)bytes + 1);
  status = net_shape(context, dims, 1, 0, shape);
  if (status != GRAPHC_OK || shape[0] != 4 || shape[1] != 3) return 5;
  status = net_run(context, dims, inputs, outputs, workspace, bytes);
  if (status != GRAPHC_OK) {
    printf("%s\\n", net_error(context));
    return 6;
  }
  for (i = 0; i < 4 * 3; i++) printf("%a\\n", (double)y[i]);
  dims[NET_DIM_BATCH] = -1;
  status = net_run(context, dims, inputs, outputs, workspace, bytes);
  printf("%d %s\\n", status, net_error(context));
  free(workspace);
  net_destroy(context);
  return 0;
}
"""


def executable(target: str = "x86-64-v3") -> tuple[gx.Executable, list[str]]:
    """A small network, and the lines that ``MAIN`` prints of its results."""
    random = np.random.default_rng(5)
    graph = gx.Graph()
    with graph:
        x = gx.placeholder(("batch", 6), "float32", name="x")
        w = gx.variable(random.standard_normal((6, 3)).astype(np.float32), name="w")
        y = gx.nn.softmax(gx.tanh(x @ w))
    exe = gx.Session(graph, target=named(target)).compile(y, [x])
    feed = (np.arange(24, dtype=np.float32) / 8 - 1).reshape(4, 6)
    return exe, [float(each).hex() for each in exe(feed).ravel()]


def values(text: str) -> list[str]:
    """The results among what ``MAIN`` printed, spelled as Python does."""
    return [float.fromhex(line).hex() for line in text.splitlines()[1:13]]


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("embed_weights", [True, False])
def test_a_program_linked_with_a_shared_library(
    tmp_path: Path, language: str, embed_weights: bool
) -> None:
    exe, expected = executable()
    folder = tmp_path / "net"
    gx.aot.compile(exe, folder, target="x86-64-v3", embed_weights=embed_weights)
    flags = ("-L", str(folder), "-lnet", f"-Wl,-rpath,{folder}")
    main = compiled(folder, MAIN, *flags, language=language)
    arguments = [] if embed_weights else [str(folder / "net.safetensors")]
    text = ran(str(main), *arguments)
    assert text.splitlines()[0] == "x x86_64_v3 [batch, 3] batch"
    assert values(text) == expected
    last = "2 the size of dim batch is -1, it must be 0 to 1099511627776"
    assert text.splitlines()[-1] == last


def test_a_program_with_the_object_in_it(tmp_path: Path) -> None:
    exe, expected = executable()
    folder = tmp_path / "net"
    gx.aot.compile(exe, folder, target="x86-64-v3", kind="object")
    main = compiled(folder, MAIN, str(folder / "net.o"), "-pthread")
    assert values(ran(str(main))) == expected
    needed = subprocess.run(
        [tool("ldd"), str(main)], capture_output=True, text=True, check=True
    ).stdout
    assert "python" not in needed and "LLVM" not in needed and "stdc++" not in needed


def test_two_libraries_in_one_program(tmp_path: Path) -> None:
    exe, expected = executable()
    for name in ("net", "twin"):
        gx.aot.compile(exe, tmp_path / name, name=name, kind="object", target="x86-64-v3")
    source = MAIN.replace(
        '#include "net.h"', '#include "net.h"\n#include "../twin/twin.h"'
    ).replace("free(workspace);", "free(workspace); if (twin_context_bytes() < 64) return 9;")
    objects = (str(tmp_path / "net" / "net.o"), str(tmp_path / "twin" / "twin.o"))
    main = compiled(tmp_path / "net", source, *objects, "-pthread")
    assert values(ran(str(main))) == expected


def test_only_the_interface_can_be_seen(tmp_path: Path) -> None:
    exe, _ = executable()
    gx.aot.compile(exe, tmp_path / "net")
    command = [tool("nm"), "-D", "--defined-only", str(tmp_path / "net" / "libnet.so")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in text.splitlines()]
    assert names and all(name.startswith("net_") for name in names)


# --- processors ----------------------------------------------------------------------------------


def under(processor: str, main: Path) -> Any:
    """A program run on another processor."""
    emulator = tool("qemu-x86_64")
    return subprocess.run(
        [emulator, "-cpu", processor, str(main)], capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip


def test_the_processor_decides_which_program_runs(tmp_path: Path) -> None:
    _, old = executable("x86-64-v2")
    exe, new = executable()
    folder = tmp_path / "net"
    gx.aot.compile(exe, folder, variants=("x86-64-v2", "x86-64-v3"), kind="object")
    main = compiled(folder, MAIN, str(folder / "net.o"), "-pthread", flags=("-static",))
    assert values(ran(str(main))) == new
    done = under("Nehalem", main)
    assert done.returncode == 0, done.stderr
    assert values(done.stdout) == old
    done = under("Haswell", main)
    assert done.returncode == 0 and values(done.stdout) == new
    done = under("core2duo", main)
    last = "5 this processor lacks instructions that the library needs"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, last)


def test_a_library_for_a_newer_processor_is_refused_by_an_older(tmp_path: Path) -> None:
    exe, _ = executable()
    folder = tmp_path / "net"
    gx.aot.compile(exe, folder, target="x86-64-v3", kind="object")
    main = compiled(folder, MAIN, str(folder / "net.o"), "-pthread", flags=("-static",))
    assert under("Nehalem", main).returncode == 3


def test_a_library_from_python_alone(tmp_path: Path) -> None:
    """The module beside a library needs neither graphc nor LLVM."""
    exe, expected = executable()
    library_of(exe, tmp_path / "net", target="x86-64-v3")
    script = (
        "import sys, numpy as np, net; p = net.Program(1)\n"
        "x = (np.arange(24, dtype='f4') / 8 - 1).reshape(4, 6)\n"
        "print(*(float(v).hex() for v in p(x)[0].ravel()))\n"
        "assert not {'graphc', 'llvmlite'} & set(sys.modules)"
    )
    assert ran(sys.executable, "-c", script, cwd=tmp_path / "net").split() == expected
