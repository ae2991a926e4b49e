"""A real Dask scheduler with two workers: killed workers, other versions and lost schedulers cost no row."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")

import dask
from yaml import safe_dump, safe_load

from bench.plan.matrix import Cell, Group, Settings
from bench.run import cluster
from bench.run.cluster import Cluster as OnCluster
from bench.store import RecordsError, Store, load
from bench.store.environment import machine, row_facts

HERE = Path(__file__).parents[1]
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent.parent)])}
pytestmark = pytest.mark.slow


class Cluster:
    """A scheduler and some workers in processes of their own, started as from the command line."""

    def __init__(self, folder: Path, workers: int, *options: str, **env: str) -> None:
        self._folder, self._env, self.processes = folder, {**ENV, **env}, []
        place = folder / "scheduler.json"
        self.scheduler = self._dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                                    "--scheduler-file", str(place), *options)  # fmt: skip
        deadline = time.monotonic() + 60
        while not place.exists() or not place.stat().st_size:
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.1)
        self.address = json.loads(place.read_text())["address"]
        self.workers = [self._dask("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                                   "--local-directory", str(folder)) for _ in range(workers)]  # fmt: skip

    def _dask(self, *args: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-m", "dask", *args], env=self._env, cwd=self._folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def two_workers(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path, 2)
    yield running
    running.close()


def groups(number: int, name: str = "short") -> list[Group]:
    def cell(label: str) -> Cell:
        columns = {"kind": "compare", "problem": "p", "solver": label, "versions": {"python": "3"}}
        return Cell(columns, "p", label)

    return [
        Group(f"g{i}", tuple(cell(f"{name} {i} {j}") for j in range(4)), Settings(timeout=30, repeat=1))
        for i in range(number)
    ]


def test_rows_come_back_and_a_killed_worker_loses_none(tmp_path: Path, two_workers: Cluster) -> None:
    todo = groups(8)
    with Store(tmp_path / "r.sqlite") as store:
        run = OnCluster(store, row_facts(), two_workers.address, "misbehaving:job")
        wait_for_workers(two_workers, 2)

        def kill_one() -> None:
            while len(store) < 4:
                time.sleep(0.05)
            two_workers.workers[0].send_signal(signal.SIGKILL)

        threading.Thread(target=kill_one, daemon=True).start()
        tally = run(todo, 0)
        assert tally.rows == 32
        assert run.remaining(todo) == []
    frame = load(tmp_path / "r.sqlite")
    assert frame.solver.is_unique
    assert len(frame) == 32
    assert set(frame.status) == {"ok"}
    assert two_workers.workers[0].wait(10) != 0


def test_a_crash_on_a_node_is_one_row(tmp_path: Path, two_workers: Cluster) -> None:
    bad = Group(
        "bad", (*groups(1, "segfault")[0].cells[:1], *groups(1)[0].cells), Settings(timeout=30, repeat=1)
    )
    with Store(tmp_path / "r.sqlite") as store:
        OnCluster(store, row_facts(), two_workers.address, "misbehaving:job")([bad], 0)
        assert sorted(store.frame().status) == ["crashed", "ok", "ok", "ok", "ok"]


def test_a_scheduler_that_goes_away_is_a_sentence_and_the_run_goes_on_later(
    tmp_path: Path, two_workers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_workers(two_workers, 1)
    monkeypatch.setattr(cluster, "PATIENCE", 3.0)
    todo = groups(40)
    with Store(tmp_path / "r.sqlite") as store:
        run = OnCluster(store, row_facts(), two_workers.address, "misbehaving:job")

        def kill_the_scheduler() -> None:
            while len(store) < 4:
                time.sleep(0.05)
            two_workers.scheduler.kill()

        threading.Thread(target=kill_the_scheduler, daemon=True).start()
        with pytest.raises(RecordsError, match="went away"):
            run(todo, 0)
        stored = len(store)
        assert stored >= 4
        left = run.remaining(todo)
        assert sum(len(g.cells) for g in left) == 160 - stored


def test_no_scheduler_and_other_versions_are_sentences(
    tmp_path: Path, two_workers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path / "r.sqlite") as store:
        with pytest.raises(RecordsError, match="no Dask scheduler"):
            OnCluster(store, row_facts(), "tcp://127.0.0.1:9")(groups(1), 0)
        monkeypatch.setattr(cluster, "fingerprint", lambda: {"numpy": "0.1"})
        wait_for_workers(two_workers, 1)
        with pytest.raises(RecordsError, match=r"instead of 0\.1"):
            OnCluster(store, row_facts(), two_workers.address, "misbehaving:job")(groups(1), 0)


def wait_for_workers(running: Cluster, number: int) -> None:
    from distributed import Client

    with Client(running.address, timeout=30, set_as_default=False) as client:
        client.wait_for_workers(number, timeout=60)


EXAMPLES = HERE.parents[1] / "examples" / "cluster"


def make_certificates(folder: Path) -> dict[str, Any]:
    """Make an authority of one certificate; return the example's configuration that names it."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
               "-keyout", "node-key.pem", "-out", "node.pem"]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    shutil.copy(folder / "node.pem", folder / "ca.pem")
    told: dict[str, Any] = safe_load((EXAMPLES / "tls.yaml").read_text("utf-8"))
    tls = told["distributed"]["comm"]["tls"]
    tls["ca-file"] = str(folder / "ca.pem")
    for role in ("scheduler", "worker", "client"):
        tls[role] = {name: str(folder / file) for name, file in tls[role].items()}
    return told


@pytest.fixture
def secured(tmp_path: Path) -> dict[str, Any]:
    """The example's configuration, with certificates made for this test."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")
    told = make_certificates(tmp_path)
    (tmp_path / "dask.yaml").write_text(safe_dump(told))
    return told


@pytest.fixture
def two_secured(tmp_path: Path, secured: dict[str, Any]) -> Iterator[Cluster]:
    running = Cluster(tmp_path, 2, "--protocol", "tls", DASK_CONFIG=str(tmp_path / "dask.yaml"))
    yield running
    running.close()


def test_rows_come_back_over_tls_and_two_workers_are_one_machine(
    tmp_path: Path, two_secured: Cluster, secured: dict[str, Any]
) -> None:
    assert two_secured.address.startswith("tls://")
    with Store(tmp_path / "r.sqlite") as store:
        run = OnCluster(store, row_facts(), two_secured.address, "misbehaving:job")
        with pytest.raises(RecordsError, match="TLS"):  # nobody without a certificate
            run(groups(1), 0)
        with dask.config.set(dask.config.merge(dask.config.config, secured)):
            wait_for_workers(two_secured, 2)
            tally = OnCluster(store, row_facts(), two_secured.address, "misbehaving:job")(groups(6), 0)
        assert tally.rows == 24
        frame = store.frame()
    assert set(frame.status) == {"ok"}
    assert set(frame.machine) == {machine()}


def test_other_protocols_and_other_certificates_are_sentences(
    tmp_path: Path, two_secured: Cluster, secured: dict[str, Any]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    stranger = make_certificates(elsewhere)
    began = time.monotonic()
    with Store(tmp_path / "r.sqlite") as store:
        with pytest.raises(RecordsError, match="address of tls://"):
            OnCluster(store, row_facts(), two_secured.address.replace("tls:", "tcp:"))(groups(1), 0)
        with (
            dask.config.set(dask.config.merge(dask.config.config, stranger)),
            pytest.raises(RecordsError, match="its own authority signed"),
        ):
            OnCluster(store, row_facts(), two_secured.address)(groups(1), 0)
    assert time.monotonic() - began < 90


def test_a_worker_that_does_not_answer_is_a_sentence(
    tmp_path: Path, two_workers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_workers(two_workers, 2)
    monkeypatch.setattr(cluster, "ANSWER_S", 5.0)
    two_workers.workers[0].send_signal(signal.SIGSTOP)
    began = time.monotonic()
    with Store(tmp_path / "r.sqlite") as store, pytest.raises(RecordsError, match="did not say in 5 s"):
        OnCluster(store, row_facts(), two_workers.address, "misbehaving:job")(groups(1), 0)
    assert time.monotonic() - began < 60


def test_dask_loads_the_example_files() -> None:
    slurm = dask.config.collect([str(EXAMPLES / "slurm.yaml")], env={})
    assert slurm["jobqueue"]["slurm"]["processes"] == 1
    made = safe_load((EXAMPLES / "kubernetes.yaml").read_text("utf-8"))
    assert made["kind"] == "DaskCluster"
    assert os.access(EXAMPLES / "start_slurm.py", os.R_OK)
