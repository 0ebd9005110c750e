"""Preparing batches ahead in a thread."""

import threading
from contextlib import suppress
from queue import SimpleQueue

_END = object()


def prefetched(batches, ahead):
    """Yield what the iterator ``batches`` yields, prepared up to ``ahead`` items ahead in a thread.

    An error of the iterator is raised where its item would have come. When this generator is
    closed, deleted or interrupted, it waits for the item in preparation, and the thread ends.
    """
    room = threading.Semaphore(ahead)
    results: SimpleQueue = SimpleQueue()
    stop = threading.Event()
    thread = threading.Thread(
        target=_prepare, args=(batches, room, results, stop), name="DataLoader", daemon=True
    )
    try:
        with suppress(RuntimeError):  # no thread can be started, as in a browser
            thread.start()
        if thread.ident is None:
            yield from batches
            return
        while True:
            batch, error = results.get()
            if error is not None:
                raise error
            if batch is _END:
                return
            room.release()
            yield batch
    finally:
        error = None  # its traceback holds this frame
        stop.set()
        room.release()
        if thread.ident is not None:  # else an interrupt came before it was started
            thread.join()


def _prepare(batches, room, results, stop):
    while True:
        room.acquire()
        if stop.is_set():
            return
        try:
            batch = next(batches, _END)
        except BaseException as error:  # noqa: BLE001  # for the thread that waits for the item
            results.put((None, error))
            return
        results.put((batch, None))
        if batch is _END:
            return
