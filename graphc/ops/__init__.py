"""The op families, a folder or a module each. Importing this package fills the registry."""

from graphc.base.modules import load_all
from graphc.ir.surface import families_loaded
from graphc.ir.symbolic import answer_for_absent_names
from graphc.ir.value import Value

load_all(__name__)
families_loaded()
answer_for_absent_names(Value)
