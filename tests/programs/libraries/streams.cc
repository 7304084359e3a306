// SPDX-License-Identifier: BSD-3-Clause
//
// Shows that std::cout and its like are each rank's own: format, error state, buffer, own words, address by dlsym, and the
// stream that cin is tied to. The program refers to libstdc++'s objects (-fPIC), or has them in its own memory.
#include <dlfcn.h>
#include <iomanip>
#include <iostream>
#include <mpi.h>
#include <sstream>

static int n_wrong;

static void check(bool is_right, const char *what)
{
    if (!is_right) {
        n_wrong++;
        std::fprintf(stderr, "wrong: %s\n", what);
    }
}

int main(int argc, char **argv)
{
    std::ostringstream caught;
    std::streambuf *before = std::cerr.rdbuf();
    const int index = std::ios_base::xalloc();
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check(std::cout.precision() == 6 && std::cout.good() && std::cin.tie() == &std::cout, "the beginning");
    MPI_Barrier(MPI_COMM_WORLD);
    std::cout << std::setprecision(10 + rank) << std::setfill(static_cast<char>('a' + rank));
    std::cout.iword(index) = rank;
    std::wcout << std::setprecision(20 + rank);
    if (rank % 2)
        std::clog.setstate(std::ios::failbit);
    std::cerr.rdbuf(caught.rdbuf());
    MPI_Barrier(MPI_COMM_WORLD);
    std::cerr << "rank " << rank;
    check(caught.str() == "rank " + std::to_string(rank), "the buffer");
    check(std::cout.precision() == 10 + rank && std::wcout.precision() == 20 + rank, "the precision");
    check(std::cout.fill() == 'a' + rank, "the fill character");
    check(std::cout.iword(index) == rank, "the word");
    check(std::clog.fail() == (rank % 2 == 1), "the error state");
    check(dlsym(RTLD_DEFAULT, "_ZSt4cout") == &std::cout, "the address that dlsym returns");
    MPI_Barrier(MPI_COMM_WORLD);
    std::cerr.rdbuf(before);
    std::cerr.clear();
    MPI_Finalize();
    if (!n_wrong)
        std::cout << "ok\n" << std::flush; // one piece: the ranks share the output
    return n_wrong;
}
