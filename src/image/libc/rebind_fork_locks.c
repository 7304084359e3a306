/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_fork_locks.c: functions whose locks a child of another rank would find taken (base/fork_lock.h): those of locales, which
 * texts of errors need, too (also rebind_buffers.c), and of iconv_open. That of dl_iterate_phdr: copy/unwind.c. Calls by shared
 * libraries do not delay a fork.
 */
#include "base/fork_lock.h"
#include "image/libc/rebind.h"

#include <iconv.h>
#include <locale.h>
#include <string.h>

/* strerror_r of POSIX. */
extern int __xpg_strerror_r(int number, char *text, size_t size);

#define DELAYS_FORKS(type, name, parameters, arguments) \
    static type image_libc_##name parameters            \
    {                                                   \
        bool is_delayed = base_fork_delay();            \
        type result = name arguments;                   \
                                                        \
        base_fork_allow(is_delayed);                    \
        return result;                                  \
    }                                                   \
    IMAGE_REBINDS(image_libc_##name, #name)

DELAYS_FORKS(char *, setlocale, (int category, const char *name), (category, name));
DELAYS_FORKS(locale_t, newlocale, (int mask, const char *name, locale_t base), (mask, name, base));
DELAYS_FORKS(locale_t, duplocale, (locale_t from), (from));
DELAYS_FORKS(iconv_t, iconv_open, (const char *to, const char *from), (to, from));
DELAYS_FORKS(int, iconv_close, (iconv_t conversion), (conversion));
DELAYS_FORKS(char *, strerror_r, (int number, char *text, size_t size), (number, text, size));
DELAYS_FORKS(int, __xpg_strerror_r, (int number, char *text, size_t size), (number, text, size));

static void image_libc_freelocale(locale_t locale)
{
    bool is_delayed = base_fork_delay();

    freelocale(locale);
    base_fork_allow(is_delayed);
}
IMAGE_REBINDS(image_libc_freelocale, "freelocale");
