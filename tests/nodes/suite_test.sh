#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that all conformance programs that are not slow behave across nodes over TCP as within one.
# Usage: suite_test.sh NUM openmpi|slurm words of tests/mpi_conformance/run (--mpicc, --build, ...)...
# One process per node, one PE each, started by Open MPI's mpirun or by srun. No run has more than 8 ranks: all nodes share
# this machine's cores.
set -u
lossy=()
num=$1
with=$2
shift 2
here=$(dirname "$0")
# shellcheck source=tests/nodes/nodes.sh
. "$here/nodes.sh"
nodes_need
nodes_up "$num"
unset HEDDLE_OPTIONS TMPDIR PMIX_RANK SLURM_JOB_ID
case $with in
openmpi)
    if ! command -v orterun >/dev/null; then
        echo "skipped: Open MPI's mpirun is not installed"
        exit 77
    fi
    OMPI_MCA_plm_rsh_agent=$(nodes_ssh)
    export OMPI_MCA_plm_rsh_agent OMPI_MCA_oob_tcp_if_include=eth0
    launcher="orterun --allow-run-as-root --host $(nodes_names "$num") --map-by node --bind-to none"
    ;;
slurm)
    if ! nodes_slurm_up "$num"; then
        echo "skipped: no Slurm"
        exit 77
    fi
    launcher="srun --mpi=pmix -Q -N $num"
    lossy=(--lossy) # what a task wrote just before srun killed it is not always shown
    ;;
*)
    echo "unknown launcher: $with"
    exit 1
    ;;
esac
# The launchers add words of their own to what a failing program prints.
"$here/../mpi_conformance/run" --procs "$num" --pes 1 --no-slow --max-ranks 8 ${lossy[@]+"${lossy[@]}"} --launcher "$nodes_dir/run 1 $launcher" "$@"
