// SPDX-License-Identifier: BSD-3-Clause
//
// Shows: thread_local objects of a std::thread that a rank starts are destroyed with the thread, and static
// objects that a thread is the first to use are destroyed at the rank's end, even if their destructor is a
// shared library's.
#include "image_test.h"

#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>

static std::atomic<int> n_alive, n_made;
static char path[64];

struct counted {
    std::string name = "an object whose name is too long for the string itself";
    counted() { n_alive++, n_made++; }
    ~counted() { n_alive--; }
};

static thread_local counted object;

static void use_object()
{
    CHECK(object.name.size() > 20);
}

static std::ofstream &log_file()
{
    static std::ofstream file(path);
    return file;
}

/* Registered before the file is opened: called after it is closed. */
static void check_written()
{
    char text[16] = "";
    FILE *file = fopen(path, "r");

    CHECK(file && fgets(text, sizeof text, file) && strcmp(text, "first\n") == 0);
    fclose(file);
    unlink(path);
    puts("ok");
}

int main()
{
    for (int round = 0; round < 20; round++) {
        std::thread a(use_object), b(use_object);
        a.join();
        b.join();
    }
    CHECK(n_made == 40 && n_alive == 0);
    use_object();
    CHECK(n_made == 41 && n_alive == 1);

    snprintf(path, sizeof path, "/tmp/threads_cxx.%d.%x", (int)getpid(), test_id());
    atexit(check_written);
    std::thread first([] { log_file() << "first\n"; });
    first.join();
    return 0;
}
