/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_random.c: rand, random and drand48 with a generator per rank.
 *
 * glibc's reentrant functions do the work, on state that starts as the process's would: every rank sees the
 * sequence that it would see as a process of its own. rand_r and its like keep no state and are not here.
 */
#include "image/rebind.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* glibc's default: a table of 31 words and one for the type. */
#define DEFAULT_STATE_BYTES 128

struct image_random {
    struct random_data random;
    int32_t default_state[DEFAULT_STATE_BYTES / sizeof(int32_t)];
    struct drand48_data drand48; /* all zero at the start, as glibc's */
};

static struct image_random *create(void)
{
    struct image_random *generators = base_calloc(1, sizeof *generators, "a rank's random numbers");

    initstate_r(1, (char *)generators->default_state, DEFAULT_STATE_BYTES, &generators->random);
    return generators;
}

void image_random_destroy(struct image_random *random)
{
    free(random);
}

/* The running rank's; threads that run no rank have one together, as in libc. */
static struct image_random *current(void)
{
    static _Atomic(struct image_random *) process_generators;
    struct image_libc *libc = image_libc_current();
    struct image_random *generators, *expected = NULL;

    if (libc) {
        if (!libc->random)
            libc->random = create();
        return libc->random;
    }
    generators = atomic_load(&process_generators);
    if (generators)
        return generators;
    generators = create();
    if (atomic_compare_exchange_strong(&process_generators, &expected, generators))
        return generators;
    image_random_destroy(generators);
    return expected;
}

/* ---- random ---- */

long image_libc_random(void)
{
    int32_t value = 0;

    random_r(&current()->random, &value);
    return value;
}

int image_libc_rand(void)
{
    return (int)image_libc_random();
}

void image_libc_srandom(unsigned seed)
{
    srandom_r(seed, &current()->random);
}

/* The state before the switch is returned as the address of its array, which begins with the word of the
 * type. */
char *image_libc_initstate(unsigned seed, char *state, size_t size_bytes)
{
    struct image_random *generators = current();
    char *old = (char *)(generators->random.state - 1);

    return initstate_r(seed, state, size_bytes, &generators->random) == 0 ? old : NULL;
}

char *image_libc_setstate(char *state)
{
    struct image_random *generators = current();
    char *old = (char *)(generators->random.state - 1);

    return setstate_r(state, &generators->random) == 0 ? old : NULL;
}

/* ---- drand48 ---- */

double image_libc_drand48(void)
{
    double value = 0;

    drand48_r(&current()->drand48, &value);
    return value;
}

double image_libc_erand48(unsigned short xsubi[3])
{
    double value = 0;

    erand48_r(xsubi, &current()->drand48, &value);
    return value;
}

long image_libc_lrand48(void)
{
    long value = 0;

    lrand48_r(&current()->drand48, &value);
    return value;
}

long image_libc_nrand48(unsigned short xsubi[3])
{
    long value = 0;

    nrand48_r(xsubi, &current()->drand48, &value);
    return value;
}

long image_libc_mrand48(void)
{
    long value = 0;

    mrand48_r(&current()->drand48, &value);
    return value;
}

long image_libc_jrand48(unsigned short xsubi[3])
{
    long value = 0;

    jrand48_r(xsubi, &current()->drand48, &value);
    return value;
}

void image_libc_srand48(long seed)
{
    srand48_r(seed, &current()->drand48);
}

unsigned short *image_libc_seed48(unsigned short seed[3])
{
    struct drand48_data *data = &current()->drand48;

    seed48_r(seed, data);
    return data->__old_x;
}

void image_libc_lcong48(unsigned short param[7])
{
    lcong48_r(param, &current()->drand48);
}
