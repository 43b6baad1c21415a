"""Native routines that kernels hand rows to: what each means, what it costs and what room it needs.

A routine is one function with run-time sizes, emitted once for a target, that every program calls
(``graphc.codegen.routines``). Kernels mention it by name (``statements.routines.Call``).
"""

from graphc.kernel.routines.base import REGISTRY, Routine, routine

# what the table of routines has to know
from graphc.kernel.routines import complex_matrices as complex_matrices  # isort: skip
from graphc.kernel.routines import fourier as fourier  # isort: skip
from graphc.kernel.routines import lapack as lapack  # isort: skip
from graphc.kernel.routines import matrices as matrices  # isort: skip
from graphc.kernel.routines import searching as searching  # isort: skip
from graphc.kernel.routines import sorting as sorting  # isort: skip

__all__ = ["REGISTRY", "Routine", "routine"]
