/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: all ranks can wait for a flag of their own that time sets: usleep, nanosleep, select and poll let
 * others run.
 */
#include "image_test.h"

#include <errno.h>
#include <poll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
    struct timespec tenth_ms = {0, 100000}, bad = {0, -1}, when, now;
    struct timeval ms = {0, 1000};

    CHECK(usleep(100) == 0 && nanosleep(&tenth_ms, NULL) == 0 && sleep(0) == 0);
    CHECK(nanosleep(&bad, NULL) == -1 && errno == EINVAL);
    CHECK(select(0, NULL, NULL, NULL, &ms) == 0 && poll(NULL, 0, 1) == 0);
    clock_gettime(CLOCK_MONOTONIC, &when);
    when.tv_sec += when.tv_nsec >= 999000000;
    when.tv_nsec = (when.tv_nsec + 1000000) % 1000000000;
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(now.tv_sec > when.tv_sec || (now.tv_sec == when.tv_sec && now.tv_nsec >= when.tv_nsec));
    puts("ok");
    return 0;
}
