"""Threads that wait for peers, and their end with the process."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import cache, partial
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Pool(Executor):
    """So many threads at most, which end with the process. Python waits for those of its ThreadPoolExecutor when it
    ends: a peer that sends nothing would keep a command that is over. A `with` block that fails waits for none.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._starting = Lock()
        self._idle = Semaphore(0)
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Give a job to the next thread that is free."""
        future: Future[T] = Future()
        with self._starting:
            if self._closed:
                raise RuntimeError("this pool takes no more jobs")
            self._jobs.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._size:
                self._threads.append(Thread(target=self._work, daemon=True))
                self._threads[-1].start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after the jobs that have been given, or with `cancel_futures` after those that have begun."""
        with self._starting:
            self._closed = True
        with suppress(Empty):
            while cancel_futures:
                if job := self._jobs.get_nowait():
                    job[0].cancel()
        self._jobs.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                self._idle.release()
                job = self._jobs.get()
            if job is None:
                # for the next thread
                self._jobs.put(None)
                return
            future, call = job
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 - who asks for the result gets it
                    future.set_exception(error)
            # an idle thread keeps nothing alive
            del job, future, call


_LAST_STEPS = 0.1
"""Seconds at the end of the process. Half a millisecond after an answer one process in four crashed, and after an
interruption 24 in 40 showed a panic; with 0.03 s none did (py-rattler 0.28)."""


def run_async(job: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for a native library's own threads. They let go of their objects after the answer, or
    after an interruption, and an interpreter that ends meanwhile crashes: the process gives them time.
    """
    import asyncio

    _wait_at_exit()
    return asyncio.run(job)


@cache
def _wait_at_exit() -> None:
    atexit.register(time.sleep, _LAST_STEPS)
