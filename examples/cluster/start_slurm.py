"""Start four nodes under Slurm, print the scheduler's address for `gfy compare --scheduler`, and stay until Ctrl-C."""

from __future__ import annotations

import sys
import time


def main(jobs: int) -> None:
    from dask_jobqueue import SLURMCluster

    with SLURMCluster() as cluster:  # slurm.yaml holds its settings
        cluster.scale(jobs=jobs)
        print(cluster.scheduler_address, flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
