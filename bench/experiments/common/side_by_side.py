"""Do independent pieces of work in processes of one thread each: two on two cores, not in each other's way.

A framework's own threads gain little on programs of small arrays; as many processes as cores gain all of it
(training ten small policies: twice as fast).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Children started inside have one thread each."""
    before = {name: os.environ.get(name) for name in ("XLA_FLAGS", "OMP_NUM_THREADS")}
    os.environ["XLA_FLAGS"] = f"{before['XLA_FLAGS'] or ''} {ONE_THREAD}".strip()
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def side_by_side(
    work: Callable[..., Any], calls: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[tuple[int, Any]]:
    """The place of each call and its result, as they are done, `jobs` at a time; the first error ends all."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    context = multiprocessing.get_context("spawn")
    # A fresh process for every call gives the memory of compiled programs back.
    with _one_thread(), ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        futures = {pool.submit(work, *call): place for place, call in enumerate(calls)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
