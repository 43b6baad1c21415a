"""The statements of kernels, by family: each class says all that analyses ask of a statement.

A new statement is a class here, with a function of the interpreter, one of code generation and one
of the verifier. Everything else goes by what ``base.Statement`` declares.
"""

# what the table of words has to know
from graphc.kernel.statements import blocks as blocks
from graphc.kernel.statements import memory as memory
from graphc.kernel.statements import products as products
from graphc.kernel.statements import routines as routines
from graphc.kernel.statements import scalars as scalars
