# SPDX-License-Identifier: BSD-3-Clause
"""Builds a wheel of mpi4py for MPI's standard ABI, from mpi4py's source on PyPI, with the mpicc of this installation.

    python3 -m heddle.mpi4py_wheel [OPTION OF PIP WHEEL...]     writes mpi4py-*.whl; -w DIR: in this folder
    python3 -m pip install mpi4py-*.whl

The wheel runs with each libmpi_abi.so.1 that mpirun or the linker finds, Heddle's or another, and is for this version of Python.
"""
import os
import pathlib
import subprocess
import sys
import tempfile


def mpicc():
    here = pathlib.Path(__file__).resolve().parent
    for prefix in (here, here.parents[3]):  # in a wheel; in PREFIX/share/heddle/python/heddle
        if (prefix / "bin/mpicc").exists():
            return str(prefix / "bin/mpicc")
    sys.exit(f"heddle.mpi4py_wheel: no bin/mpicc near {here}: it belongs to an installation of Heddle")


def main():
    with tempfile.TemporaryDirectory() as folder:  # mpi4py splits MPICC at blanks
        os.symlink(mpicc(), folder + "/mpicc")
        os.environ.update(MPICC=folder + "/mpicc", MPI4PY_BUILD_MPIABI="1")
        sys.exit(subprocess.call([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-binary=mpi4py", "--no-cache-dir",
                                  *sys.argv[1:], "mpi4py"]))


if __name__ == "__main__":
    main()
