"""Random numbers: the generator, keys, distributions, sampling, and the stateful form."""
