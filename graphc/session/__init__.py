"""Sessions and executables: feeds, results, variables, and the fast way through a call."""
