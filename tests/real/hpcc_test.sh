#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a real program works unchanged: HPC Challenge 1.5.0, built with Heddle's mpicc, with 4, 16 and 36 ranks on
# 2 PEs. Every self-check of the suite must pass.
#
# Usage: hpcc_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package hpcc, once, into WORK_DIR. Exits with 77 if they are not
# available. Another MPI: MPICC=mpicc.openmpi MPIRUN='mpirun.openmpi --oversubscribe' hpcc_test.sh ... (Debian's Open
# MPI also needs RENAMED=-DHPL_NO_MPI_DATATYPE).
# Other numbers of ranks (squares): RANKS='4 9' hpcc_test.sh ...
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
mpicc=${MPICC:-$build/bin/mpicc}
mpirun=${MPIRUN:-$build/bin/mpirun --timeout 900 +p 2}
ranks_list=${RANKS:-4 16 36}
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

# ---- Building: HPCC is configured by a file of one's own in hpl/ ----

blas=
for candidate in -lopenblas '-lcblas -lblas' -lblas; do
    # shellcheck disable=SC2086 # several words
    if echo 'void cblas_dgemm(void); int main(void) { cblas_dgemm(); }' | cc -x c - -o blas_test $candidate 2>/dev/null; then
        blas=$candidate
        break
    fi
done
[ -n "$blas" ] || {
    echo "FAILED: no BLAS with the C interface here: apt-get install libopenblas-dev (or libblas-dev)"
    exit 1
}

# HPL calls two functions of MPI-1 that MPI 3.0 removed; these are their names since MPI-2, with the same arguments.
renamed=${RENAMED:--DMPI_Address=MPI_Get_address -DMPI_Type_struct=MPI_Type_create_struct}

unpack_source hpcc
cat >"$source/hpl/Make.heddle" <<END
SHELL = /bin/sh
CD = cd
CP = cp
LN_S = ln -s
MKDIR = mkdir -p
RM = /bin/rm -f
TOUCH = touch
ARCH = heddle
TOPdir = ../../..
INCdir = \$(TOPdir)/include
BINdir = \$(TOPdir)/bin/\$(ARCH)
LIBdir = \$(TOPdir)/lib/\$(ARCH)
HPLlib = \$(LIBdir)/libhpl.a
HPL_INCLUDES = -I\$(INCdir) -I\$(INCdir)/\$(ARCH)
HPL_LIBS = \$(HPLlib) $blas -lm
HPL_OPTS = -DHPL_CALL_CBLAS $renamed
HPL_DEFS = \$(HPL_OPTS) \$(HPL_INCLUDES)
CC = $mpicc
CCNOOPT = \$(HPL_DEFS)
CCFLAGS = \$(HPL_DEFS) -O2 -w
LINKER = $mpicc
LINKFLAGS = \$(CCFLAGS)
ARCHIVER = ar
ARFLAGS = r
RANLIB = echo
END
if ! timeout 600 make -C "$source" -j 2 arch=heddle >build.log 2>&1 </dev/null || [ ! -x "$source/hpcc" ]; then
    tail -n 20 build.log
    echo "FAILED: hpcc does not build ($work/build.log)"
    exit 1
fi
check_unchanged hpcc

# ---- Running ----

# Sizes for seconds, not for speed: the other tests of the suite take theirs from the memory that HPL needs.
write_input() {
    local grid=$1
    cat <<END
HPLinpack benchmark input file
(first two lines are ignored)
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
1200         Ns
1            # of NBs
40           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
$grid        Ps
$grid        Qs
16.0         threshold
2            # of panel fact
0 2          PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
3            # of broadcast
0 3 5        BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
2            # of lookahead depth
0 1          DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
2            Number of additional problem sizes for PTRANS
600 900      values of N
2            number of additional blocking sizes for PTRANS
16 64        values of NB
END
}

# A number of the summary at the end of the output: name=value.
value_of() {
    sed -n "s/^$2=//p" "$1" | tail -n 1
}

# The part of the output between "Begin of NAME section." and its end.
section() {
    sed -n "/^Begin of $2 section/,/^End of $2 section/p" "$1"
}

# Is this an expression of numbers that holds? For example: holds "3 < 4".
holds() {
    awk "BEGIN { exit !($1) }"
}

check_output() {
    local ranks=$1 out=$2 name value
    local label="$ranks ranks"
    [ "$(value_of "$out" Success)" = 1 ] || fail "$label: Success=1 is missing"
    [ "$(value_of "$out" CommWorldProcs)" = "$ranks" ] || fail "$label: the suite saw $(value_of "$out" CommWorldProcs) ranks"

    # HPL: 2 factorizations x 3 broadcasts x 2 depths, each with its residual.
    section "$out" HPL | grep -Eq '^ +12 tests completed and passed residual checks' || fail "$label: HPL: not all of 12 passed"
    [ "$(section "$out" HPL | grep -c '^||Ax-b||.*PASSED')" = 12 ] || fail "$label: HPL: not all of 12 residuals are there"

    # PTRANS: each line of its table ends in PASSED, and the sum says that none failed or was skipped.
    value=$(section "$out" PTRANS | grep -cE '^(WALL|CPU ).*PASSED')
    [ "$value" -ge 10 ] || fail "$label: PTRANS: only $value lines passed"
    for name in 'completed and failed' 'skipped because'; do
        section "$out" PTRANS | grep -Eq "^ *0 tests $name" || fail "$label: PTRANS: some tests $name"
    done

    # RandomAccess: rank 0 says that at most 1 % of the table is wrong (of what single ranks do it prints no number).
    for name in MPIRandomAccess StarRandomAccess MPIRandomAccess_LCG StarRandomAccess_LCG; do
        section "$out" $name | grep -Eq '^Found [0-9]+ errors in [0-9]+ locations \(passed\)' || fail "$label: $name did not pass"
    done
    for name in MPIRandomAccess MPIRandomAccess_LCG; do
        value=$(value_of "$out" ${name}_ErrorsFraction)
        holds "\"$value\" != \"\" && ${value:-1} >= 0 && ${value:-1} <= 0.01" ||
            fail "$label: $name: fraction of errors '$value'"
    done

    # What every rank, or one, does alone: each checks its result, and the number of those that found it wrong is printed.
    for name in RandomAccess RandomAccess_LCG DGEMM FFT STREAM; do
        for value in Star$name Single$name; do
            section "$out" "$value" | grep -q '^Node(s) with error 0$' || fail "$label: $value: ranks with errors"
        done
    done
    section "$out" StarDGEMM | awk '/^Scaled residual:/ { found = 1; if (!($NF >= 0 && $NF < 16)) bad = 1 } END { exit bad || !found }' ||
        fail "$label: StarDGEMM: the residual is too large"
    section "$out" StarSTREAM | grep -q 'Solution Validates' || fail "$label: StarSTREAM: not validated"

    # FFT: the largest error of a transform and back.
    value=$(value_of "$out" MPIFFT_maxErr)
    holds "\"$value\" != \"\" && ${value:-1} >= 0 && ${value:-1} < 1e-12" || fail "$label: MPIFFT: largest error '$value'"

    # What is only measured must have been: rates and times above 0.
    for name in HPL_Tflops StarDGEMM_Gflops SingleDGEMM_Gflops PTRANS_GBs MPIRandomAccess_GUPs MPIRandomAccess_LCG_GUPs \
        StarRandomAccess_GUPs SingleRandomAccess_GUPs StarSTREAM_Copy StarSTREAM_Scale StarSTREAM_Add \
        StarSTREAM_Triad SingleSTREAM_Triad StarFFT_Gflops SingleFFT_Gflops MPIFFT_Gflops \
        MaxPingPongLatency_usec RandomlyOrderedRingLatency_usec MinPingPongBandwidth_GBytes \
        NaturallyOrderedRingBandwidth_GBytes RandomlyOrderedRingBandwidth_GBytes AvgPingPongLatency_usec; do
        value=$(value_of "$out" $name)
        holds "\"$value\" != \"\" && ${value:-0} > 0" || fail "$label: $name is '$value'"
    done
    grep -E 'Failure|FAILED|\(failed\)|Failed Validation' "$out" && fail "$label: the output speaks of failure"
}

for ranks in $ranks_list; do
    grid=1
    while [ $((grid * grid)) -lt "$ranks" ]; do grid=$((grid + 1)); done
    run=$work/run_$ranks
    rm -rf "$run" && mkdir -p "$run" && cd "$run" || exit 1
    write_input $grid >hpccinf.txt
    start=$SECONDS code=0
    # shellcheck disable=SC2086 # several words
    timeout 1000 $mpirun -n "$ranks" "$source/hpcc" >output.txt 2>&1 </dev/null || code=$?
    before=$failures
    if [ $code != 0 ]; then
        tail -n 20 output.txt
        fail "$ranks ranks: exit code $code ($run)"
    fi
    if [ -s hpccoutf.txt ]; then
        check_output "$ranks" hpccoutf.txt
    else
        fail "$ranks ranks: there is no hpccoutf.txt"
    fi
    [ $failures = "$before" ] && echo "$ranks ranks: every check passed, $((SECONDS - start)) s"
done
finish
