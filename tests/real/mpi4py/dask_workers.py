# SPDX-License-Identifier: BSD-3-Clause
"""dask-mpi: rank 0 becomes Dask's scheduler, rank 1 runs this script, the others become workers."""
import dask.array
from dask_mpi import initialize
from distributed import Client

initialize(nthreads=1, dashboard=False, nanny=False)
client = Client()
client.wait_for_workers(3)
assert sum(client.gather(client.map(lambda x: x * x, range(50)))) == 40425
assert float(dask.array.ones((400, 400), chunks=(100, 100)).sum().compute()) == 160000
print("good", len(client.scheduler_info()["workers"]) + 2)
