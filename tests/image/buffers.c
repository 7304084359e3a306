/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: strtok, localtime, asctime and hsearch continue at this rank's position although others call them in
 * between.
 */
#include "image_test.h"

#include <search.h>
#include <string.h>
#include <time.h>

int main(void)
{
    char text[64], expected[16];
    int n = 0;
    time_t when = (time_t)test_id() * 1000;
    struct tm *tm = gmtime(&when), copy = *tm;
    char key[16];

    snprintf(text, sizeof text, "%u,%u;%u", test_id(), test_id() + 1, test_id() + 2);
    for (char *token = strtok(text, ",;"); token; token = strtok(NULL, ",;")) {
        snprintf(expected, sizeof expected, "%u", test_id() + (unsigned)n++);
        CHECK(strcmp(token, expected) == 0);
        sched_yield();
    }
    CHECK(n == 3);
    CHECK(memcmp(tm, &copy, sizeof copy) == 0);
    CHECK(hcreate(4) != 0);
    snprintf(key, sizeof key, "%u", test_id());
    CHECK(hsearch((ENTRY){key, &image_test_self}, ENTER) != NULL);
    let_others_run();
    CHECK(hsearch((ENTRY){key, NULL}, FIND)->data == &image_test_self);
    hdestroy();
    puts("ok");
    return 0;
}
