"""Send groups to a Dask cluster: each is measured on one node in isolation, its rows come back to one store.

A worker that dies has its groups redone elsewhere (Dask's doing); a worker with other library versions is
refused; a scheduler that goes away ends the run with a sentence, and the same command goes on later. Rows
carry the machine that measured them: timings are only ever compared within one.

Every node needs the same environment (`pip install -c constraints.txt -e '.[all]'`). On nodes of your own:

    dask scheduler                                       on one node; it prints tcp://HOST:8786
    dask worker tcp://HOST:8786 --nthreads 1             on every node that measures, once
    gfy compare --suite full --scheduler tcp://HOST:8786

Under Slurm, PBS or LSF, dask-jobqueue starts both from a Python prompt, one whole node a worker so that nobody
else disturbs the clock; under Kubernetes, dask-kubernetes does. Give the address they print to `--scheduler`:

    from dask_jobqueue import SLURMCluster
    cluster = SLURMCluster(cores=1, processes=1, memory="32GB", job_extra_directives=["--exclusive"])
    cluster.scale(jobs=4); print(cluster.scheduler_address)

    from dask_kubernetes.operator import KubeCluster
    cluster = KubeCluster(name="gfy", image="an image with this environment", n_workers=4)
    print(cluster.scheduler_address)
"""

from __future__ import annotations

import threading
import time
from asyncio import CancelledError
from collections.abc import Callable
from typing import Any, NoReturn

from bench.measure import environment
from bench.plan.cells import Cell, Group
from bench.plan.matrix import Plan
from bench.plan.remaining import done, measured_anywhere
from bench.run.executor import JOB, GroupRunner, Tally, row_of
from bench.store.records import RecordsError, Store

PATIENCE = 15.0  # seconds without the scheduler before we give up
_one_at_a_time = threading.Lock()  # a node measures one group at a time, whatever its number of threads

Rows = list[tuple[str, dict[str, Any]]]


def fingerprint() -> dict[str, str]:
    """What must be equal on the two ends: library versions and the sources of this suite."""
    return {**environment.versions(), "gfy sources": environment.library_fingerprint()}


def version_fault(expected: dict[str, str]) -> str | None:
    """How this process differs from what is expected, in a sentence; None when it does not."""
    own = fingerprint()
    differing = [
        f"{name} {own.get(name, 'is missing')} instead of {wanted}"
        for name, wanted in expected.items()
        if own.get(name) != wanted
    ]
    return f"A worker on {environment.machine()} has {', '.join(differing)}." if differing else None


def check_plugin(expected: dict[str, str]) -> Any:
    """The worker plugin that refuses a worker whose libraries differ from the client's."""
    from distributed import WorkerPlugin

    class VersionCheck(WorkerPlugin):  # type: ignore[misc]
        name = "gfy-versions"

        def setup(self, worker: Any) -> None:
            fault = version_fault(expected)
            if fault is not None:
                raise RuntimeError(fault)

    return VersionCheck()


def measure_remotely(group: Group, job: str) -> tuple[dict[str, Any], Rows]:
    """On a node: measure a group in an isolated process; the node's facts and a row for every cell."""
    rows: Rows = []
    with _one_at_a_time:
        runner = GroupRunner(threading.Event(), job)
        try:
            runner.run(group, lambda cell, columns: rows.append((cell.name, columns)))
        finally:
            runner.close()
    return environment.row_facts(), rows


def remaining_on_cluster(plan: Plan, store: Store, retry: bool = False) -> list[Group]:
    """The groups with the cells that no machine has measured yet."""
    known = measured_anywhere(store)
    todo = []
    for group in plan.groups:
        missing = {c.name for c in group.cells if not done(known.get(c.name), group, retry)}
        if missing:
            todo.append(group.only(missing))
    return todo


class ClusterRun:
    """The same promises as `bench.run.executor.Run`, on a cluster: every cell becomes one row in the store."""

    def __init__(
        self,
        store: Store,
        address: str,
        listener: Callable[[Group, Cell, dict[str, Any]], None] | None = None,
        job: str = JOB,
    ) -> None:
        self._store, self._address, self._listener, self._job = store, address, listener, job
        self._stopping = threading.Event()
        self._at_once = False
        self.tally = Tally()

    def stop(self) -> None:
        """Wait for the groups that are being measured, send no other; a second call gives up on those too."""
        self._at_once = self._stopping.is_set()
        self._stopping.set()

    def __call__(self, groups: list[Group], rerun_loaded: int = 1) -> Tally:
        client = self._connect()
        try:
            waiting = list(groups)
            for attempt in range(rerun_loaded + 1):
                loaded = self._pass(client, waiting, attempt)
                waiting = [g.only(loaded[g.label]) for g in waiting if g.label in loaded]
                self.tally.passes = attempt + 1
                self.tally.loaded = sum(len(names) for names in loaded.values())
                if not waiting or self._stopping.is_set():
                    break
        finally:
            self._disconnect(client)
        self.tally.stopped = self._stopping.is_set()
        return self.tally

    def _connect(self) -> Any:
        import dask
        from distributed import Client

        dask.config.set({"distributed.comm.timeouts.connect": "10s"})
        try:
            client = Client(self._address, timeout=10, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise RecordsError(
                f"There is no Dask scheduler at {self._address} ({error}): start one with `dask scheduler`."
            ) from error
        try:
            if not client.scheduler_info()["workers"]:
                client.wait_for_workers(1, timeout=PATIENCE)
            client.register_plugin(check_plugin(fingerprint()))
        except TimeoutError:
            client.close(timeout=2)
            raise RecordsError(
                f"The scheduler at {self._address} has no workers: start one, `dask worker {self._address}`."
            ) from None
        except RuntimeError as error:
            client.close(timeout=2)
            raise RecordsError(f"{error} Install the same versions on every node.") from error
        return client

    def _disconnect(self, client: Any) -> None:
        try:
            client.close(timeout=2)
        except Exception:  # the scheduler is gone: there is nobody left to say goodbye to
            return

    def _pass(self, client: Any, groups: list[Group], attempt: int) -> dict[str, set[str]]:
        pending = {
            client.submit(measure_remotely, group, self._job, pure=False, retries=3): group
            for group in groups
        }
        loaded: dict[str, set[str]] = {}
        last_seen = time.monotonic()
        while pending:
            if client.status == "running":
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > PATIENCE:
                self._gone()
            for future in [f for f in pending if f.done()]:
                group = pending.pop(future)
                self._collect(future, group, attempt, loaded)
            if self._stopping.is_set():
                if self._at_once:
                    client.cancel(list(pending), force=True)
                    break
                self._cancel_unstarted(client, pending)
            time.sleep(0.05)
        return loaded

    def _gone(self) -> NoReturn:
        raise RecordsError(
            f"The scheduler at {self._address} went away; {self.tally.rows} rows came back and are stored. "
            "Start it again and give the same command to go on."
        )

    def _cancel_unstarted(self, client: Any, pending: dict[Any, Group]) -> None:
        running = {key for keys in client.processing().values() for key in keys}
        idle = [f for f in pending if f.key not in running]
        client.cancel(idle)
        for future in idle:
            del pending[future]

    def _collect(self, future: Any, group: Group, attempt: int, loaded: dict[str, set[str]]) -> None:
        if future.status in ("cancelled", "lost"):  # not by us: those we cancel are no longer pending
            self._gone()
        if future.status != "finished":
            error = future.exception()
            reason = f"no node could measure it ({type(error).__name__}: {error})"
            for cell in group.cells:
                self._keep(
                    group, cell, {"status": "crashed", "reason": reason}, environment.row_facts(), attempt
                )
            return
        try:
            facts, rows = future.result(timeout=PATIENCE)
        except (OSError, TimeoutError, CancelledError):  # the result was fetched through the scheduler
            self._gone()
        cells = {cell.name: cell for cell in group.cells}
        for name, columns in rows:
            self._keep(group, cells[name], columns, facts, attempt)
            if columns.get("loaded"):
                loaded.setdefault(group.label, set()).add(name)

    def _keep(
        self, group: Group, cell: Cell, columns: dict[str, Any], facts: dict[str, Any], attempt: int
    ) -> None:
        row = row_of(group, cell, columns, facts, attempt)
        self._store.put(row)
        if attempt == 0:
            self.tally.rows += 1
            status = str(row["status"])
            self.tally.by_status[status] = self.tally.by_status.get(status, 0) + 1
        if self._listener is not None:
            self._listener(group, cell, row)
