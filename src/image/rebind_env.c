/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_env.c: variables that libc changes on the program's behalf.
 *
 * The environment and the time zone are the process's: shared by all ranks. But a program compiled without
 * our wrapper has its own space for libc's environ, timezone, ... (COPY relocations), and every copy has one.
 * A rank that calls setenv or tzset gets its own brought up to date; other ranks' do not follow (getenv
 * always sees all).
 */
#include "image/instantiate.h"
#include "image/rebind.h"

#include <string.h>
#include <time.h>

bool image_is_refreshed_variable(const char *name)
{
    static const char *const names[] = {
        "environ",  "__environ",  "_environ", "timezone", "__timezone",
        "daylight", "__daylight", "tzname",   "__tzname",
    };

    for (size_t i = 0; i < BASE_COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void refresh(void)
{
    struct image *image = image_rebind_client.current ? image_rebind_client.current() : NULL;

    if (image)
        image_refresh_variables(image);
}

int image_libc_setenv(const char *name, const char *value, int is_replacing)
{
    int result = setenv(name, value, is_replacing);

    refresh();
    return result;
}

int image_libc_unsetenv(const char *name)
{
    int result = unsetenv(name);

    refresh();
    return result;
}

int image_libc_putenv(char *assignment)
{
    int result = putenv(assignment);

    refresh();
    return result;
}

int image_libc_clearenv(void)
{
    int result = clearenv();

    refresh();
    return result;
}

void image_libc_tzset(void)
{
    tzset();
    refresh();
}
