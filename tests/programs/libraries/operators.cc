// SPDX-License-Identifier: BSD-3-Clause
//
// Shows that a rank's own operator new and delete serve the C++ runtime, too: what it allocates for a rank comes from the
// rank's arena, and no operator gets a pointer from elsewhere.
#include <cstdio>
#include <cstdlib>
#include <locale>
#include <mpi.h>
#include <new>
#include <sstream>
#include <string>
#include <vector>

static char arena[4 << 20];
static size_t used, n_foreign;
static long n_live;

void *operator new(std::size_t size)
{
    size_t begin = used;

    used += (size + 15) & ~std::size_t(15);
    if (used > sizeof arena)
        throw std::bad_alloc();
    n_live++;
    return arena + begin;
}

void operator delete(void *memory) noexcept
{
    if (memory)
        n_live--, n_foreign += static_cast<char *>(memory) < arena || static_cast<char *>(memory) >= arena + used;
}

void operator delete(void *memory, std::size_t) noexcept
{
    operator delete(memory);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long before = n_live;
    bool is_thrown = false;
    {
        std::ostringstream stream; // its code and that of std::string is in the runtime
        std::string text;

        for (int i = 0; i < 100; i++) {
            text += std::to_string(i) + " is a number\n";
            stream << text.substr(0, 40);
            if (i % 10 == 0)
                MPI_Barrier(MPI_COMM_WORLD);
        }
        text = stream.str();
        try {
            text.append(sizeof arena, 'x');
        } catch (const std::bad_alloc &) {
            is_thrown = true;
        }
    }
    std::puts(n_live == before && used > 4000 && n_foreign == 0 && is_thrown ? "ok" : "wrong");
    MPI_Finalize();
    return 0;
}
