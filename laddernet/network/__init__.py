"""What is computed: the paper's equations, as plain JAX."""
