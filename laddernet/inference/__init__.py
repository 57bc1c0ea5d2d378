"""A trained network as NumPy matrices, and its files. No JAX."""
