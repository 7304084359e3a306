// SPDX-License-Identifier: BSD-3-Clause
//
// Shows: pthread_exit in a rank's main destroys the objects on its stack, then its thread_local ones, then the
// static ones.
#include "image_test.h"

#include <pthread.h>
#include <string>

static std::string order;

struct noted {
    char name;
    ~noted()
    {
        order += name;
        let_others_run();
    }
};

struct last {
    ~last()
    {
        CHECK(order == "edcbat");
        puts("ok");
    }
};

static last at_the_end;
static thread_local noted in_thread{'t'};

static void end(int depth)
{
    noted object{static_cast<char>('a' + depth)};

    try {
        if (depth == 4)
            pthread_exit(nullptr);
        else
            end(depth + 1);
    } catch (int) { // not this
        order += '!';
    }
    order += '?';
}

int main()
{
    CHECK(in_thread.name == 't');
    let_others_run();
    end(0);
    return 1;
}
