// SPDX-License-Identifier: BSD-3-Clause
//
// Shows: thread_local objects of a private library are constructed per rank and thread, at their alignment, and
// destroyed with their thread; the rank's before its static objects.
#include "image_test.h"
#include "libtls_objects.h"

#include <thread>

static struct End {
    std::atomic<int> destroyed{0};

    ~End()
    {
        CHECK(destroyed == 3 * 1001 + 1001);
        puts("ok");
    }
} end;

int main()
{
    int id = static_cast<int>(test_id() % 100);

    objects_count(&end.destroyed);
    objects_use(id);
    let_others_run();
    CHECK(objects_have(id));
    for (int i = 1; i <= 3; i++) {
        std::thread([=] {
            objects_use(id + i);
            CHECK(objects_have(id + i));
        }).join();
        CHECK(end.destroyed == i * 1001);
    }
    CHECK(objects_have(id));
    return 0;
}
