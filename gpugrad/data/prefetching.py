"""Preparing batches ahead in a thread."""

from collections import deque

_END = object()


def prefetched(batches, ahead):
    """Yield what the iterator ``batches`` yields, prepared up to ``ahead`` items ahead in a thread.

    An error of the iterator is raised where its item would have come. When this generator is
    closed, deleted or interrupted, it waits for the item in preparation, and the thread ends.
    """
    from concurrent.futures import ThreadPoolExecutor  # here, since the import takes long

    pool = ThreadPoolExecutor(1, "DataLoader")
    try:
        waiting = deque([pool.submit(next, batches, _END) for _ in range(ahead)])
        while (batch := waiting.popleft().result()) is not _END:
            waiting.append(pool.submit(next, batches, _END))
            yield batch
    finally:
        pool.shutdown(cancel_futures=True)
