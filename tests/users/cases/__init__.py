"""The cases where compilers went wrong: their data, their graphs and how answers are compared."""
