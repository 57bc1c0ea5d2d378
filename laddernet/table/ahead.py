"""Parts of a table processed in threads: NumPy and pyarrow let other threads run while they compute."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from laddernet.machine import cores

T = TypeVar("T")

_MOST = 2  # parts that are computed at a time, each in memory


def processed(function: Callable[[Any], T], parts: Iterable[Any]) -> Iterator[T]:
    """Yield the results of a function for all parts, in their order, computed in two threads while more is read.

    With a single core there are no threads.

    An error comes after the results of all parts before it. Matrix products are computed by the thread that asks for
    them.

    >>> list(processed(lambda part: part**2, range(4)))
    [0, 1, 4, 9]
    """
    threads = min(cores(), _MOST)
    if threads == 1:
        yield from map(function, parts)
        return
    running: deque[Future[T]] = deque()
    error: Exception | None = None
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        source = iter(parts)
        while True:
            try:
                running.append(pool.submit(function, next(source)))
            except StopIteration:
                break
            except Exception as found:
                error = found
                break
            if len(running) > threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    if error is not None:
        raise error
