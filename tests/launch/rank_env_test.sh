#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the launchers' variables by which programs choose their GPUs have each rank's own number, also in
# constructors, with several ranks in a process and with one; that those of Slurm and PMI are right if they are set, and
# are not added; and that an inner program of another MPI does not believe that its own launcher started it.
# Usage: rank_env_test.sh MPICC MPIRUN
set -u
mpirun=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
for name in $(env | grep -oE '^(OMPI_|MV2_|SLURM_|PMI|MPI_LOCAL)[A-Z0-9_]*'); do unset "$name"; done
unset HEDDLE_OPTIONS
EXPECT_TIMEOUT=180
here=$(cd "$(dirname "$0")" && pwd)
work=$expect_dir
"$1" -O1 -o "$work/rank_env" "$here/rank_env.c" || exit 1
cd "$work" || exit 1

added=(OMPI_COMM_WORLD_RANK=rank OMPI_COMM_WORLD_SIZE=size OMPI_COMM_WORLD_LOCAL_RANK=local_rank
    OMPI_COMM_WORLD_LOCAL_SIZE=local_size OMPI_COMM_WORLD_NODE_RANK=local_rank MV2_COMM_WORLD_RANK=rank
    MV2_COMM_WORLD_SIZE=size MV2_COMM_WORLD_LOCAL_RANK=local_rank MV2_COMM_WORLD_LOCAL_SIZE=local_size
    MPI_LOCALRANKID=local_rank MPI_LOCALNRANKS=local_size)
not_invented=(SLURM_LOCALID=none SLURM_PROCID=none SLURM_NTASKS=none PMI_RANK=none PMI_SIZE=none)
# As srun and hydra leave them to a process.
process=(SLURM_LOCALID=0 SLURM_PROCID=0 SLURM_NTASKS=1 PMI_RANK=0 PMI_SIZE=1 PALS_LOCAL_RANKID=0 SLURM_JOB_NAME=kept)
changed=(SLURM_LOCALID=local_rank SLURM_PROCID=rank SLURM_NTASKS=size PMI_RANK=rank PMI_SIZE=size
    PALS_LOCAL_RANKID=local_rank SLURM_JOB_NAME=kept)

# every N WHAT VARIABLES COMMAND...: each of N ranks finds all of that many variables right.
every() {
    local n=$1 what=$2 variables=$3 expected='^'
    for ((i = 0; i < n; i++)); do expected+="rank $i of $n: $variables right "; done
    expect "$what" 0 "$expected\$" '' sh -c '"$@" | sort' - "${@:4}"
}
own=$((${#added[@]} + ${#not_invented[@]}))
every 4 "mpirun -n 4" $own "$mpirun" -n 4 ./rank_env "${added[@]}" "${not_invented[@]}"
every 4 "one PE" $own "$mpirun" -n 4 ./rank_env "${added[@]}" "${not_invented[@]}" +p 1
every 3 "no launcher" $own ./rank_env "${added[@]}" "${not_invented[@]}" +vp 3
every 1 "mpirun -n 1" $own "$mpirun" -n 1 ./rank_env "${added[@]}" "${not_invented[@]}"
every 1 "no launcher, one rank: nothing is added" 2 ./rank_env OMPI_COMM_WORLD_RANK=none SLURM_LOCALID=none
every 3 "values that the process has" ${#changed[@]} env "${process[@]}" ./rank_env "${changed[@]}" +vp 3
every 3 "values of an outer job" ${#added[@]} env OMPI_COMM_WORLD_RANK=7 MPI_LOCALRANKID=7 MV2_COMM_WORLD_SIZE=9 \
    "$mpirun" -n 3 ./rank_env "${added[@]}"
expect "programs without MPI" 0 '^0 of 3: 0 1 of 3: 1 2 of 3: 2 $' '' sh -c '"$@" | sort' - "$mpirun" -n 3 awk \
    'BEGIN { print ENVIRON["OMPI_COMM_WORLD_RANK"] " of " ENVIRON["MV2_COMM_WORLD_SIZE"] ": " ENVIRON["MPI_LOCALRANKID"] }'
if "$mpirun" --procs 2 -n 2 true >/dev/null 2>&1; then
    every 4 "mpirun --procs 2 -n 4" $own "$mpirun" --procs 2 -n 4 ./rank_env "${added[@]}" "${not_invented[@]}"
    every 5 "mpirun --procs 2 -n 5" $own "$mpirun" --procs 2 -n 5 ./rank_env "${added[@]}" "${not_invented[@]}"
    every 2 "mpirun --procs 2 -n 2" $own "$mpirun" --procs 2 -n 2 ./rank_env "${added[@]}" "${not_invented[@]}"
    every 4 "two programs, one with a process for each rank" $own "$mpirun" -n 2 ./rank_env "${added[@]}" "${not_invented[@]}" : \
        --procs 2 -n 2 ./rank_env "${added[@]}" "${not_invented[@]}"
    in_slurm=(SLURM_LOCALID=local_rank SLURM_PROCID=rank SLURM_NTASKS=size)
    every 2 "mpirun --procs 2 in a task of Slurm" ${#in_slurm[@]} env "${process[@]}" \
        "$mpirun" --procs 2 -n 2 ./rank_env "${in_slurm[@]}"
fi
if command -v mpirun.openmpi >/dev/null && "$mpirun" --procs 2 -n 2 true >/dev/null 2>&1; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    every 6 "Open MPI's mpirun, three ranks in each process" ${#added[@]} \
        mpirun.openmpi --oversubscribe -n 2 ./rank_env "${added[@]}" +vp 6
fi

# ---- An inner program of another MPI, alone, and with its own launcher ----
cat >other.c <<'END2'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("other %d of %d\n", rank, size);
    MPI_Finalize();
    return 0;
}
END2
cat >starts.c <<'END2'
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, code = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1)
        code = system(argv[1]);
    MPI_Finalize();
    return code != 0;
}
END2
"$1" -o starts starts.c || exit 1
for other in openmpi mpich; do
    command -v mpicc.$other >/dev/null || continue
    mpicc.$other -o other_$other other.c || exit 1
    expect "an inner program of $other" 0 '^other 0 of 1 $' '*' "$mpirun" -n 3 ./starts ./other_$other
    oversubscribe=
    [ $other = openmpi ] && oversubscribe=--oversubscribe
    expect "an inner job of $other" 0 '^(other [01] of 2 ){2}$' '*' "$mpirun" -n 3 ./starts "mpirun.$other $oversubscribe -n 2 ./other_$other"
done
finish
