"""Cluster: many machines for one batch, by Dask.

Either whole notebooks go to the cluster or the simulations of a single one, never both, so that nothing on the cluster
waits for something else on it. Several points: each notebook runs on a worker, which must share the file system and
this checkout. One point: its notebook runs here and hands the replications of its simulations over, which needs no
shared files. Wherever a point runs, its numbers are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from logging import ERROR
from typing import Any

__all__ = ["joined"]

PATIENCE = 30  # s that a cluster may take to answer


@contextmanager
def joined(points: int, scheduler: str | None = None, workers: int | None = None) -> Iterator[dict[str, Any]]:
    """The arguments of ``batch.execute`` that let so many points use a cluster, none without one.

    scheduler  address of the scheduler of a cluster that runs, as "tcp://host:8786"
    workers    processes of a cluster on this machine that ends with the block

    Raises ValueError if both are given, for fewer than one worker, without the package distributed, and for a cluster
    that cannot be reached or has no worker.
    """
    if scheduler is None and workers is None:
        yield {}
        return
    if scheduler is not None and workers is not None:
        raise ValueError(f"give a scheduler or a number of workers, not both, {scheduler} and {workers}")
    if workers is not None and not 1 <= workers <= 1000:
        raise ValueError(f"workers must be in [1, 1000], not {workers}")
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ValueError("a cluster needs the package distributed: install lbkit[cluster]") from None
    with ExitStack() as stack:
        if workers is not None:
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, memory_limit=0, dashboard_address=None, silence_logs=ERROR
            )
            scheduler = stack.enter_context(cluster).scheduler_address
        try:
            client = stack.enter_context(Client(scheduler, timeout=PATIENCE, set_as_default=False))
            client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, ValueError) as error:  # a TimeoutError is an OSError
            raise ValueError(f"no cluster with a worker answers at {scheduler}: {error}") from None
        yield {"executor": client.get_executor()} if points > 1 else {"scheduler": scheduler}
