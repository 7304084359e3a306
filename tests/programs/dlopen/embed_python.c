/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Runs a Python interpreter in every rank: modules, extension modules among them, have the rank's own
 * variables.
 */
#include <Python.h>
#include <mpi.h>
#include <stdio.h>

static const char script[] =
    "import math, json, ctypes, decimal, array, struct, hashlib, random, collections, threading\n"
    "import _ctypes, _decimal, _json, _struct\n"
    "math.secret = rank\n"
    "decimal.getcontext().prec = 10 + rank\n"
    "assert json.loads(json.dumps({'a': [1, 2.5, None]})) == {'a': [1, 2.5, None]}\n"
    "assert str(decimal.Decimal(1) / 3) == '0.' + '3' * (10 + rank)\n"
    "libc = ctypes.CDLL(None)\n"
    "assert libc.abs(-3) == 3\n"
    "seen = []\n"
    "t = threading.Thread(target=lambda: seen.append(math.secret)); t.start(); t.join()\n"
    "assert seen == [rank]\n"
    "assert hashlib.md5(b'x').hexdigest() == '9dd4e461268c8034f5c8564e155c67a6'\n";
static const char after[] = "assert math.secret == rank and decimal.getcontext().prec == 10 + rank\n";

int main(int argc, char **argv)
{
    int rank, result, sum;
    char text[64];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    Py_InitializeEx(0);
    snprintf(text, sizeof text, "rank = %d\n", rank);
    result = PyRun_SimpleString(text) || PyRun_SimpleString(script);
    MPI_Barrier(MPI_COMM_WORLD);
    result = result || PyRun_SimpleString(after);
    result = Py_FinalizeEx() || result;
    MPI_Allreduce(&result, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && sum == 0)
        printf("ok\n");
    MPI_Finalize();
    return sum != 0;
}
