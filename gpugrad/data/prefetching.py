"""Preparing batches ahead in a thread."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

_END = object()


def prefetched(batches, ahead):
    """Yield what the iterator ``batches`` yields, prepared up to ``ahead`` items ahead in a thread.

    If the iterator raises an error, this raises it in place of the item. When this generator is
    closed, deleted or interrupted, it waits for the item in preparation, and the thread ends.
    """
    pool = ThreadPoolExecutor(1, "DataLoader")
    items: deque = deque()
    try:
        with suppress(RuntimeError):  # no thread can be started, as in a browser
            items.extend([pool.submit(next, batches, _END) for _ in range(ahead)])
        if not items:
            yield from batches
            return
        while (batch := items.popleft().result()) is not _END:
            items.append(pool.submit(next, batches, _END))
            yield batch
    finally:
        pool.shutdown(cancel_futures=True)
