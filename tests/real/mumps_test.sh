#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that MUMPS (a direct solver; Fortran 90 with mpif.h, a part in C) works unchanged: its examples with four kinds of numbers, those that save the
# factors to files of each rank, and dsimpletest with the matrix of a grid of 40 x 40 points, with 4, 16 and 64 ranks in one process
# with 2 PEs and in 2 processes. The solutions are known, and Open MPI finds the same ones, if it is here.
#
# Usage: mumps_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package mumps, once, into WORK_DIR. Exits with 77 if they cannot be had.
# MUMPS is built without ScaLAPACK, which it calls for the last, dense block of matrices larger than these: a function that it would call ends
# the program with a message.
# Other numbers of ranks: RANKS='4 9' mumps_test.sh ... About 10 minutes on two cores.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
needs_command gfortran gfortran
needs_openblas

# build_mumps MPICC MPIFORT KINDS EXAMPLES: in the current folder, which is a copy of the sources.
build_mumps() {
    local cc=$1 fortran=$2 kinds=$3 examples=$4 kind
    cat >Makefile.inc <<INC
LPORDDIR = \$(topdir)/PORD/lib/
IPORD = -I\$(topdir)/PORD/include/
LPORD = -L\$(LPORDDIR) -lpord
ORDERINGSF = -Dpord
ORDERINGSC = \$(ORDERINGSF)
LORDERINGS = \$(LPORD)
IORDERINGSC = \$(IPORD)
PLAT =
LIBEXT = .a
LIBEXT_SHARED = .so
OUTC = -o # with a blank
OUTF = -o # with a blank
RM = /bin/rm -f
CC = $cc
FC = $fortran
FL = $fortran
AR = ar vr # with a blank
RANLIB = ranlib
LIBPAR = \$(topdir)/lib/libabsent.a -lopenblas
LIBBLAS = -lopenblas
LIBOTHERS = -lpthread
CDEFS = -DAdd_
OPTF = -O1 -w -std=legacy
OPTC = -O1 -w
OPTL = -O1
LIBS = \$(LIBPAR)
LIBSEQNEEDED =
INC
    build_step prerequisites.log make prerequisites
    for kind in $kinds; do
        build_step "library_$kind.log" make -C src -j 2 "$kind"
    done
    # A function that says its name, for each of ScaLAPACK's that the libraries call.
    {
        echo '#include <stdio.h>'
        echo '#include <stdlib.h>'
        nm -A lib/*.a | sed -n 's/.* U \(blacs_[a-z]*_\|descinit_\|numroc_\|p[sdcz][a-z0-9]*_\|pxerbla_\)$/\1/p' | sort -u |
            while read -r name; do
                printf 'void %s(void) { fputs("%s: MUMPS was built without ScaLAPACK\\n", stderr); abort(); }\n' "$name" "$name"
            done
    } >absent.c
    build_step absent.log cc -c absent.c -o absent.o
    build_step absent.log ar cr lib/libabsent.a absent.o
    for kind in $examples; do
        build_step "examples_$kind.log" make -C examples "$kind"
    done
}

unpack_source mumps
rm -rf "$work/other" && cp -r "$source" "$work/other"
cd "$source" || exit 1
build_mumps "$build/bin/mpicc" "$build/bin/mpifort" "s d c z" all
check_unchanged mumps
own=$source/examples other=
cd "$work" || exit 1

# The matrix of a grid: 4 on the diagonal, -1 (to the right and below) and -0.5 between neighbors. The solution is x(i) = i mod 7 + 1.
awk -v n=40 'function add(i, j, a) { row[count] = i; column[count] = j; value[count] = a; count++; b[i] += a * (j % 7 + 1) }
    BEGIN {
        count = 0
        for (y = 0; y < n; y++)
            for (x = 0; x < n; x++) {
                i = y * n + x + 1
                add(i, i, 4)
                if (x > 0) add(i, i - 1, -0.5)
                if (x < n - 1) add(i, i + 1, -1)
                if (y > 0) add(i, i - n, -0.5)
                if (y < n - 1) add(i, i + n, -1)
            }
        print n * n
        print count
        for (k = 0; k < count; k++) print row[k], column[k], value[k]
        for (i = 1; i <= n * n; i++) print b[i]
    }' >grid.txt

# solve LABEL PROGRAM INPUT command...: runs `command... PROGRAM <INPUT` and leaves the numbers of the solution in the file found, one a line.
solve() {
    local label=$1 program=$2 input=$3
    shift 3
    # shellcheck disable=SC2016 # for the other shell
    run_program "$label" solve.log sh -c 'input=$1; shift; exec "$@" <"$input"' - "$input" "$@" "$program" || return
    sed -n '/[Ss]olution is/,/^ *$/p' solve.log | sed 's/.*[Ss]olution is//' | tr '(),:' '    ' | tr -s ' ' '\n' | grep . >found
}

# is_solution COUNT DIGITS [STEP]: are there COUNT numbers, i mod 7 + 1 or, with the examples, 1, 2, ..., each STEP numbers (complex ones have a part 0)?
is_solution() {
    awk -v count="$1" -v digits="$2" -v step="${3:-1}" 'BEGIN { limit = 10 ^ -digits }
        { i = int((NR - 1) / step) + 1; want = (NR - 1) % step ? 0 : count > 100 ? i % 7 + 1 : i
          d = $1 - want; if (d > limit || d < -limit || /[Nn][Aa][Nn]/) exit 1 }
        END { if (NR != count * step) exit 1 }' found
}

# check_examples LABEL command...: all examples.
check_examples() {
    local label=$1 name
    shift
    for name in ssimpletest dsimpletest; do
        solve "$name, $label" "$own/$name" "$own/input_simpletest_real" "$@" || continue
        is_solution 5 4 || fail "$name, $label: $(head -n 5 solve.log)"
    done
    for name in csimpletest zsimpletest; do
        solve "$name, $label" "$own/$name" "$own/input_simpletest_cmplx" "$@" || continue
        is_solution 5 4 2 || fail "$name, $label: $(head -n 5 solve.log)"
    done
    solve "c_example, $label" "$own/c_example" /dev/null "$@" && { is_solution 2 2 || fail "c_example, $label: $(head -n 5 solve.log)"; }
    run_program "multiple_arithmetics_example, $label" solve.log "$@" "$own/multiple_arithmetics_example" &&
        { grep -q 'went well' solve.log || fail "multiple_arithmetics_example, $label: $(head -n 5 solve.log)"; }
    solve "dsimpletest_save_restore, $label" "$own/dsimpletest_save_restore" "$own/input_simpletest_real" "$@" &&
        { is_solution 5 4 || fail "dsimpletest_save_restore, $label: $(head -n 5 solve.log)"; }
    solve "dsimpletest with a grid, $label" "$own/dsimpletest" grid.txt "$@" &&
        { is_solution 1600 6 || fail "dsimpletest with a grid, $label: $(head -n 5 solve.log)"; }
}

for ranks in ${RANKS:-4 16 64}; do
    for options in "+p 2" "--procs 2"; do
        before=$failures
        # shellcheck disable=SC2086 # several words
        check_examples "$ranks ranks, $options" "$build/bin/mpirun" -n $ranks $options
        [ $failures = "$before" ] && echo "$ranks ranks, $options: solutions of eight programs"
    done
done

if has_openmpi; then
    cd other || exit 1
    build_mumps mpicc.openmpi mpifort.openmpi d d
    other=$PWD/examples
    cd "$work" || exit 1
    if solve "dsimpletest with a grid, Open MPI" "$other/dsimpletest" grid.txt "${openmpi_run[@]}" -n 4; then
        mv found expected
        for ranks in ${RANKS:-4 16 64}; do
            solve "dsimpletest with a grid, $ranks ranks" "$own/dsimpletest" grid.txt "$build/bin/mpirun" -n "$ranks" +p 2 || continue
            if is_same_numbers expected found 1e-9; then
                echo "$ranks ranks: Open MPI's solution"
            else
                fail "$ranks ranks: another solution than Open MPI's"
            fi
        done
    fi
fi
finish
