"""How it is computed fast: native kernels, each beside its plain twin; native.py decides which of the two is used."""
