"""Pools of threads, and what the end of the process waits for."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, as_completed

import pytest

from envspec.base.threads import Pool, run_async


def test_jobs_give_results_and_errors() -> None:
    with Pool(3) as pool:
        assert list(pool.map(lambda n: n * n, range(50))) == [n * n for n in range(50)]
        jobs = [pool.submit(divmod, 7, n) for n in (0, 2)]
        assert {job.exception() is None for job in as_completed(jobs)} == {True, False}
        with pytest.raises(ZeroDivisionError):
            jobs[0].result()


def test_no_more_threads_than_the_size_and_no_more_than_jobs_need() -> None:
    before = threading.active_count()
    with Pool(2) as pool:
        for number in range(5):
            assert pool.submit(abs, -number).result() == number
        time.sleep(0.05)
        assert pool.submit(abs, -1).result() == 1
        assert 1 <= threading.active_count() - before <= 2
        go_on = threading.Event()
        jobs = [pool.submit(go_on.wait, 10) for _ in range(6)]
        assert threading.active_count() - before == 2
        go_on.set()
        assert all(job.result() for job in jobs)
    assert threading.active_count() == before


def hold(pool: Pool) -> Callable[[], None]:
    """Give a pool's one thread a job that lasts until it is let go."""
    begun, go_on = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        go_on.wait(20)

    pool.submit(job)
    assert begun.wait(10)
    return go_on.set


def test_a_block_that_fails_waits_for_no_job() -> None:
    began, pool = time.monotonic(), Pool(1)
    let_go = hold(pool)
    waiting = pool.submit(abs, -1)
    with pytest.raises(KeyError), pool:
        raise KeyError
    assert time.monotonic() - began < 10
    with pytest.raises(CancelledError):
        waiting.result()
    with pytest.raises(RuntimeError, match="takes no more jobs"):
        pool.submit(abs, -1)
    let_go()


def test_an_ended_pool_finishes_its_jobs() -> None:
    pool = Pool(1)
    let_go = hold(pool)
    waiting = pool.submit(abs, -1)
    pool.shutdown(wait=False)
    let_go()
    assert waiting.result(10) == 1
    pool.shutdown()
    pool.shutdown()


def test_the_process_ends_while_a_job_hangs() -> None:
    code = (
        "import threading; from envspec.base.threads import Pool\n"
        "pool = Pool(2); begun = threading.Event()\n"
        "pool.submit(lambda: (begun.set(), threading.Event().wait(60))); begun.wait()"
    )
    began = time.monotonic()
    assert subprocess.run([sys.executable, "-c", code], timeout=50, check=False).returncode == 0
    assert time.monotonic() - began < 20


def test_a_coroutine_is_run() -> None:
    async def answer() -> int:
        return 7

    assert run_async(answer()) == 7
