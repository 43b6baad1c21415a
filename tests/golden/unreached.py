"""The functions of the code generator with lines that no golden program reaches, and why.

A slow test compares them with what ``reached.py`` finds; ``python -m golden.reached`` shows the
lines.
"""

from __future__ import annotations

_DEFINED = "a module defines it once, and no module of its own asks twice"
_BROKEN = "errors of what passes and verifiers do not let through"
_PLACES = "results are stored at places made of indices alone"
_OTHERS = "a condition before it, or what lowering makes, leaves it to other callers"

UNREACHED = {
    "graphc/codegen/kernels/matmul_calls.py emit_contract":
        "panels of another target; no workspace",
    "graphc/codegen/llvm/emitter.py FunctionEmitter.iota": _OTHERS,
    "graphc/codegen/kernels/gather_prefetch.py _place":
        "classes are picked by one element a row, not by rows",
    "graphc/codegen/gemm/small_m_transposed.py emit_dots": _DEFINED,
    "graphc/codegen/gemm/driver.py _emit_blocked": _DEFINED,
    "graphc/codegen/gemm/driver.py emit_float_gemm": _DEFINED,
    "graphc/codegen/gemm/driver.py emit_float_gemm_packed": _DEFINED,
    "graphc/codegen/gemm/integer.py emit_integer_gemm": _DEFINED,
    "graphc/codegen/gemm/packing.py emit_pack_block": _DEFINED,
    "graphc/codegen/gemm/micro_kernel.py emit_row": _DEFINED,
    "graphc/codegen/gemm/micro_kernel.py emit_strip": _DEFINED,
    "graphc/codegen/kernels/loads_stores.py _all_uniform":
        "what all lanes load alike stands outside of the loop",
    "graphc/codegen/kernels/primitives.py emit_cast": "the builder makes no cast to the same dtype",
    "graphc/codegen/kernels/scope.py KernelScope.spread": _OTHERS,
    "graphc/codegen/kernels/nontemporal_stores.py address_at": _PLACES,
    "graphc/codegen/kernels/nontemporal_stores.py element_at": _PLACES,
    "graphc/codegen/kernels/nontemporal_stores.py start_of_lines": _PLACES,
    "graphc/codegen/native/plan_walker.py ProgramText.is_glue": "for people",
    "graphc/codegen/native/plan_walker.py ProgramText.kernels": "for people",
    "graphc/lower/contraction.py lower_contraction": _BROKEN,
    "graphc/lower/evaluate.py Evaluator._pointwise": _BROKEN,
    "graphc/lower/evaluate.py Evaluator._step": _BROKEN,
    "graphc/lower/evaluate.py _Operands.checked_index": _BROKEN,
    "graphc/lower/evaluate.py _Operands.load_if": "what is made of indices is padded in memory",
    "graphc/lower/attention_masks.py _Walk._row": _OTHERS,
    "graphc/lower/concat_nests.py _Part._restricted": "fusion joins no map with other shapes to it",
    "graphc/lower/concat_nests.py _Part.graph": "fusion joins no map with other shapes to it",
    "graphc/lower/program.py _Planner._single": _BROKEN,
    "graphc/lower/rows.py _known": _BROKEN,
    "graphc/lower/launch_fission.py _make_all":
        "the parts of what several loops write can be counted",
}

__all__ = ["UNREACHED"]
