"""The op families, a folder or a module each. Importing this package fills the registry."""

from graphc.base.modules import load_all
from graphc.ir.surface import families_loaded

load_all(__name__)
families_loaded()
