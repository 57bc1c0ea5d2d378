"""What all tests share: programs compiled quickly, and only once, however many processes need them."""

import os
from pathlib import Path

# Before JAX is imported, and through the environment, so that processes started by tests have them too.
# Compilation takes most of the suite's time: optimising less halves it, and changes no test's meaning.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parent.parent / ".pytest_cache" / "xla")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.5"
