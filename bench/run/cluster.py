"""Send groups to a Dask cluster: each is measured on one node in isolation, and its rows come back to one store.

A group whose worker dies is sent out again, at most three times in all. Every task compares the library versions and
the sources of its node with the client's, and a worker that differs is retired. When the scheduler goes away, or when
no results come back any more, the run ends with a sentence that says so; the same command continues it later. Every row
names the machine that measured it, since timings are only compared within one machine.

Every node needs the same environment (`pip install -c constraints.txt -e '.[all]'`). The commands for your own
nodes are:

    dask scheduler                                       on one node; it prints tcp://HOST:8786
    dask worker tcp://HOST:8786 --nthreads 1             on every node that measures, once
    gfy compare --suite full --scheduler tcp://HOST:8786

An address of tls://HOST:8786 is used with the certificates that Dask's own configuration names. `examples/cluster` has
files for that, for Slurm (dask-jobqueue) and for Kubernetes.
"""

from __future__ import annotations

import threading
import time
from asyncio import CancelledError, wait_for
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn

from bench.plan import registry
from bench.plan.matrix import Cell, Group
from bench.run.executor import Executor
from bench.run.groups import JOB, GroupRunner
from bench.store import RecordsError, Store, environment, key_of
from bench.store.read import plain_rows

PATIENCE = 15.0  # seconds; the run ends when the scheduler has been away for this long
ANSWER_S = 120.0  # seconds; the scheduler and its workers must answer a question of the client in this time
SLACK = 600.0  # seconds; a group is lost when it takes this much longer than the limits of its cells allow
TRIES = 3  # a group is sent out at most this many times when its workers die
_one_at_a_time = threading.Lock()  # a worker measures one group at a time, whatever its number of threads

Rows = list[tuple[str, dict[str, Any]]]


class WrongNode(Exception):
    """A node has other libraries or sources than the client: (the worker's address, the sentence)."""


def fingerprint() -> dict[str, str]:
    """Return what must be equal at both ends: library versions and the sources of the four packages."""
    rooms = [environment.ROOT / room for room in ("gfy", "solvers", "bench", "reports")]
    sources = environment.fingerprint(*(room for room in rooms if room.is_dir()))
    return {**environment.versions(), "gfy-suite with the sources": sources}


def files_of(group: Group) -> dict[str, str]:
    """Return the digests of the files that a group's solvers and problems come from."""
    texts = {text for cell in group.cells for text in (cell.problem, cell.solver)}
    files = {file for file in map(registry.file_of, texts) if file is not None}
    return {str(file): environment.fingerprint(file) if file.is_file() else "none" for file in files}


def version_fault(expected: dict[str, str], own: dict[str, str] | None = None) -> str | None:
    """Return a sentence that says how this process differs from what is expected, or None when it does not."""
    own = fingerprint() if own is None else own
    differing = [
        f"{name} {own.get(name, 'is missing')} instead of {wanted}"
        for name, wanted in expected.items()
        if own.get(name) != wanted
    ]
    return f"A worker on {environment.machine()} has {', '.join(differing)}." if differing else None


def check_plugin(expected: dict[str, str]) -> Any:
    """Return the worker plugin that refuses a worker whose libraries differ from the client's."""
    from distributed import WorkerPlugin

    class VersionCheck(WorkerPlugin):  # type: ignore[misc]
        name = "gfy-versions"

        def setup(self, worker: Any) -> None:
            fault = version_fault(expected)
            if fault is not None:
                raise RuntimeError(fault)

    return VersionCheck()


def client_class() -> Any:
    """Return Dask's client with a limit on every question, which is closed where it could not connect.

    Dask limits how long a connection takes, but not how long the other side may stay silent after it.
    """
    from distributed import Client

    class LimitedClient(Client):  # type: ignore[misc]
        def start(self, **kwargs: Any) -> None:
            try:
                super().start(**kwargs)
            except BaseException:
                self.close(timeout=2)
                raise

        async def _start(self, **kwargs: Any) -> Any:
            return await wait_for(super()._start(**kwargs), 2 * PATIENCE)

        def sync(self, func: Any, *args: Any, callback_timeout: Any = None, **kwargs: Any) -> Any:
            limit = ANSWER_S if callback_timeout is None else callback_timeout
            return super().sync(func, *args, callback_timeout=limit, **kwargs)

        def __del__(self) -> None:
            """Do nothing: Dask closes its client here and takes a lock that the thread in which Python's garbage
            collector runs may hold already, which then waits for ever."""

    return LimitedClient


@contextmanager
def machine_to_oneself() -> Iterator[None]:
    """Wait until no other worker of this user on this machine measures, since several workers share one machine."""
    import fcntl
    import os
    import tempfile

    path = os.path.join(tempfile.gettempdir(), f"gfy-measuring-{os.getuid()}.lock")
    place = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        # The system releases the lock when the process ends, however it ends.
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)


def measure_remotely(
    group: Group, job: str, expected: dict[str, str], files: dict[str, str]
) -> tuple[dict[str, Any], Rows]:
    """Measure a group on a node in an isolated process; return the node's facts and a row for every cell.

    Every task checks the versions and the sources of its node, since a worker may have joined or changed after the run
    began.
    """
    fault = version_fault(expected) or version_fault(files, files_of(group))
    if fault is not None:
        from distributed import get_worker

        raise WrongNode(get_worker().address, fault)
    rows: Rows = []
    with _one_at_a_time, nullcontext() if group.settings.accuracy_only else machine_to_oneself():
        runner = GroupRunner(threading.Event(), job)
        try:
            runner.run(group, lambda cell, columns: rows.append((cell.name, columns)))
        finally:
            runner.close()
    return environment.row_facts(), rows


class Cluster(Executor):
    """Measure on the nodes of a Dask cluster, each group in a watched worker of one node; see `Executor`."""

    def __init__(self, store: Store, facts: Mapping[str, Any], address: str, job: str = JOB) -> None:
        super().__init__(store, facts, job)
        self._address = address
        self._client: Any = None
        self._at_once = False

    def stored(self) -> Callable[[Cell], Mapping[str, Any] | None]:
        """Look up rows of any machine, since any node may have measured them."""
        found = {key_of({**row, "machine": None}): row for row in plain_rows(self._store.frame())}
        return lambda cell: found.get(key_of(cell.columns | {"machine": None}))

    def _told(self, again: bool) -> None:
        self._at_once = again

    def _open(self) -> None:
        self._client = self._connect()

    def _close(self) -> None:
        try:
            self._client.close(timeout=2)
        except Exception:  # the scheduler is gone, so that nothing is left to close
            return

    def _connect(self) -> Any:
        import dask

        dask.config.set({"distributed.comm.timeouts.connect": "10s"})
        try:
            client = client_class()(self._address, timeout=10, set_as_default=False)
        except TypeError as error:  # a tls:// address without certificates raises this
            raise RecordsError(
                f"The scheduler at {self._address} asks for TLS and no certificates are configured: name them in a "
                "Dask configuration, distributed.comm.tls (see examples/cluster/tls.yaml)."
            ) from error
        except (OSError, ValueError) as error:
            raise RecordsError(
                f"There is no Dask scheduler at {self._address} ({str(error) or 'nothing answered'}): start one with "
                "`dask scheduler`. One with TLS has an address of tls:// and answers only those whose certificates "
                "its own authority signed."
            ) from error
        try:
            self._admit_workers(client)
        except BaseException:
            client.close(timeout=2)
            raise
        return client

    def _admit_workers(self, client: Any) -> None:
        """Wait for a worker, and compare the versions and the sources of all with the client's."""
        try:
            if not client.scheduler_info()["workers"]:
                client.wait_for_workers(1, timeout=PATIENCE)
        except OSError:
            raise RecordsError(
                f"The scheduler at {self._address} has no workers: start one, `dask worker {self._address}`."
            ) from None
        self._expected = fingerprint()
        try:
            client.register_plugin(check_plugin(self._expected))
        except OSError as error:
            raise RecordsError(
                f"A worker at {self._address} did not say in {ANSWER_S:.0f} s which versions it has "
                f"({str(error) or 'no answer'}): look at the workers and give the same command again."
            ) from error
        except RuntimeError as error:
            raise RecordsError(f"{error} Install the same versions on every node.") from error

    def _ask(self, question: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Return the answer to a question to the scheduler; end the run with a sentence where none comes."""
        try:
            return question(*args, **options)
        except (OSError, CancelledError):  # a TimeoutError is an OSError
            self._gone()

    def _submit(self, group: Group) -> Any:
        return self._client.submit(
            measure_remotely, group, self._job, self._expected, files_of(group), pure=False
        )

    def _pass(self, groups: list[Group], attempt: int) -> None:
        client = self._client
        pending = {self._submit(group): group for group in groups}
        self._tries: dict[str, int] = {}
        last_seen = last_news = time.monotonic()
        while pending:
            if client.status == "running":
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > PATIENCE:
                self._gone()
            for future in [f for f in pending if f.done()]:
                last_news = time.monotonic()
                group = pending.pop(future)
                if not self._collect(future, group, attempt):
                    pending[self._submit(group)] = group
            if time.monotonic() - last_news > longest(pending.values()):
                self._silent(list(pending))
            if self._stopping.is_set():
                if self._at_once:
                    self._ask(client.cancel, list(pending), force=True)
                    break
                self._cancel_unstarted(pending)
            time.sleep(0.05)

    def _silent(self, pending: list[Any]) -> NoReturn:
        self._ask(self._client.cancel, pending, force=True)
        raise RecordsError(
            f"No worker at {self._address} finished anything for longer than its cells may take; {self.tally.rows} "
            "rows came back and are stored. Look at the workers and give the same command to go on."
        )

    def _gone(self) -> NoReturn:
        raise RecordsError(
            f"The scheduler at {self._address} went away or does not answer; {self.tally.rows} rows came back and are "
            "stored. Start it again and give the same command to go on."
        )

    def _cancel_unstarted(self, pending: dict[Any, Group]) -> None:
        running = {key for keys in self._ask(self._client.processing).values() for key in keys}
        idle = [f for f in pending if f.key not in running]
        self._ask(self._client.cancel, idle)
        for future in idle:
            del pending[future]

    def _collect(self, future: Any, group: Group, attempt: int) -> bool:
        """Store the rows of a group that came back; return False where another worker must measure it again."""
        # This run did not cancel it: futures that it cancels leave `pending`.
        if future.status in ("cancelled", "lost"):
            self._gone()
        if future.status != "finished":
            return self._failed(self._ask(future.exception), group, attempt)
        try:
            facts, rows = future.result(timeout=PATIENCE)
        except TimeoutError as error:  # its worker died before it could send the rows
            return self._failed(error, group, attempt)
        except (OSError, CancelledError):  # the result comes through the scheduler, which is gone
            self._gone()
        cells = {cell.name: cell for cell in group.cells}
        for name, columns in rows:
            self.keep(group, cells[name], columns, attempt, facts)
        return True

    def _failed(self, error: BaseException, group: Group, attempt: int) -> bool:
        if isinstance(error, WrongNode):
            address, fault = error.args
            self._ask(self._client.retire_workers, [address], close_workers=True)
            if not self._ask(self._client.scheduler_info)["workers"]:
                raise RecordsError(f"{fault} Install the same versions on every node.")
            return False
        # A group whose worker died has no stored rows, so that another worker measures all its cells again.
        self._tries[group.label] = self._tries.get(group.label, 0) + 1
        if self._tries[group.label] < TRIES:
            return False
        reason = f"no node could measure it in {TRIES} tries ({type(error).__name__}: {error})"
        for cell in group.cells:
            self.keep(group, cell, {"status": "crashed", "reason": reason}, attempt, self._facts)
        return True


def longest(groups: Iterable[Group]) -> float:
    """Return the seconds without news of these groups after which they are considered lost."""
    return max((len(g.cells) * max(120.0, g.settings.timeout) for g in groups), default=0.0) + SLACK
