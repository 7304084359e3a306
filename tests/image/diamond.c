/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: two libraries that use a third one see the same variables of it. Argument "private": each rank's
 * own, constructed once per rank. "shared": one of the two is shared by the ranks (IMAGE_PRIVATE), and so is
 * the third, for all.
 */
#include "image_test.h"

#include <string.h>

int left_add(int n);
int right_add(int n);
int counter_constructed(void);

int main(int argc, char **argv)
{
    int is_shared = argc > 1 && strcmp(argv[1], "shared") == 0;
    int before = left_add(0), expected = before;

    CHECK(counter_constructed() == 1);
    CHECK(is_shared || before == 0);
    for (int i = 0; i < 5; i++) {
        if (is_shared)
            expected = left_add(0);
        CHECK(right_add(1) == expected + 1);
        CHECK(left_add(1) == expected + 2);
        expected += 2;
        let_others_run();
    }
    CHECK(is_shared ? left_add(0) >= expected : left_add(0) == expected);
    puts("ok");
    return 0;
}
