"""What the client does of a cluster's failures, without a cluster: dead workers, wrong nodes, silence."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")

from bench.plan.matrix import Cell, Group, Settings
from bench.run import cluster
from bench.store import RecordsError, Store, load

FACTS = {"machine": "m", "machine_info": {"cpu": "x"}, "versions": {"python": "3"}}


class Client:
    """Enough of a Dask client: who was retired, and who is left."""

    def __init__(self, workers: int) -> None:
        self.workers, self.retired = workers, []

    def retire_workers(self, addresses: list[str], close_workers: bool) -> None:
        self.retired += addresses
        self.workers -= 1

    def scheduler_info(self) -> dict[str, Any]:
        return {"workers": list(range(self.workers))}


def group() -> Group:
    cell = Cell({"kind": "compare", "problem": "p", "solver": "s"}, "p", "s")
    return Group("g", (cell,), Settings(timeout=200))


@pytest.fixture
def run(tmp_path: Path) -> Any:
    with Store(tmp_path / "r.sqlite") as store:
        made = cluster.Cluster(store, FACTS, "tcp://nowhere:1")
        made._tries, made._client = {}, Client(2)
        yield made


def test_the_cells_of_a_dead_worker_are_measured_again(run: Any, tmp_path: Path) -> None:
    death = RuntimeError("KilledWorker")
    answers = [run._failed(death, group(), 0) for _ in range(cluster.TRIES)]
    assert answers == [False] * (cluster.TRIES - 1) + [True]
    assert "3 tries" in load(tmp_path / "r.sqlite").reason[0]


def test_a_worker_that_joined_with_other_versions_is_retired(run: Any) -> None:
    wrong = cluster.WrongNode("tcp://late:2", "A worker on x has numpy 1 instead of 2.")
    assert run._failed(wrong, group(), 0) is False
    assert run._client.retired == ["tcp://late:2"]
    with pytest.raises(RecordsError, match="numpy 1 instead of 2"):
        run._failed(wrong, group(), 0)
    assert run.tally.rows == 0


def test_every_task_asks_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    import distributed

    class Node:
        address = "tcp://here:3"

    monkeypatch.setattr(distributed, "get_worker", Node)
    with pytest.raises(cluster.WrongNode, match="instead of 0"):
        cluster.measure_remotely(group(), "x:y", {"numpy": "0"}, {})
    with pytest.raises(cluster.WrongNode, match="instead of abc"):
        cluster.measure_remotely(group(), "x:y", {}, {"/their/solver.py": "abc"})


def test_the_sources_of_all_packages_and_of_the_users_files_are_compared(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("x = 1")
    mine = Group("g", (Cell({"kind": "compare"}, "p", f"{file}:Mine(x=2)"),))
    before = cluster.files_of(mine)
    file.write_text("x = 2")
    assert cluster.files_of(mine) != before
    assert list(before) == [str(file)]
    assert "gfy-suite with the sources" in cluster.fingerprint()


def test_silence_ends_after_the_limits_of_the_cells() -> None:
    assert cluster.longest([group()]) == 200 + cluster.SLACK


AGAIN = """
import gc, threading
from bench.run.cluster import Cluster
from bench.store import RecordsError

begin = threading.Thread.__init__
def collect_and_begin(self, *args, **options):
    gc.collect()  # which ends the first client while the second one starts its thread under a lock
    begin(self, *args, **options)

gc.disable()
threading.Thread.__init__ = collect_and_begin
for again in range(2):
    try:
        Cluster(None, {}, "tls://127.0.0.1:9")._connect()
    except RecordsError as error:
        print(error)
"""


def test_a_refused_client_does_not_block_the_next_one() -> None:
    said = subprocess.run([sys.executable, "-c", AGAIN], capture_output=True, text=True, timeout=60)
    assert said.stdout.count("no certificates are configured") == 2, said.stderr


def test_a_scheduler_that_stays_silent_is_a_sentence(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        run._address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(RecordsError, match=r"There is no Dask scheduler .*nothing answered"):
            run._connect()
    assert time.monotonic() - began < 10


def test_rows_that_were_lost_with_their_worker_are_measured_again(run: Any) -> None:
    class Lost:
        status = "finished"

        def result(self, timeout: float) -> Any:
            raise TimeoutError

    assert run._collect(Lost(), group(), 0) is False
    assert run.tally.rows == 0


def test_questions_without_an_answer_are_a_sentence(run: Any) -> None:
    def unanswered(*args: Any, **options: Any) -> None:
        raise TimeoutError

    run._client.retire_workers = unanswered
    with pytest.raises(RecordsError, match="does not answer; 0 rows"):
        run._failed(cluster.WrongNode("tcp://late:2", "A worker differs."), group(), 0)
