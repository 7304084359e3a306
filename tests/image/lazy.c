/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a program linked with -z lazy works, although its library functions are not bound yet when it is
 * copied.
 */
#include "image_test.h"

#include <math.h>
#include <string.h>

static volatile double x = 2.0;

int main(void)
{
    char text[32];

    let_others_run();
    snprintf(text, sizeof text, "%.6f", sqrt(x) + pow(x, 3.0) + cbrt(x));
    CHECK(strcmp(text, "10.674135") == 0);
    CHECK(strtol("77", NULL, 10) == 77 && strchr("abc", 'c') != NULL);
    puts("ok");
    return 0;
}
