"""Figures that were tuned: what pays, by measurement, and changes no bit of a result.

* ``machine``: of a target, ``Tuning.of(target)``: schedules of kernels.
* ``tasks``, ``sharing``: when threads pay. Work is estimated alike for every target, so that a
  kernel's text means the same wherever it is read.
* ``products``: how matrix products are cut.
* ``fusion``: how much a kernel holds, and what memory is shared.
* ``routines``: where one native routine over rows hands over to another, and what they cost.
* ``running``: when a first program answers, and which memory is used again.

The block sizes of float products, by dtype, are in ``graphc.codegen.gemm.blocking``. Figures that
follow from an algorithm, a format or a standard stand where they are used.
"""
