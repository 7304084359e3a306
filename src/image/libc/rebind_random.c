/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_random.c: rand, random and drand48 with a generator per rank.
 *
 * glibc's reentrant functions do the work, on state that starts like that of a process: every rank sees the
 * sequence of a separate process. rand_r and similar functions keep no state and need no replacement.
 */
#include "image/libc/rebind.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* glibc's default: a table of 31 words and one for the type. */
#define DEFAULT_STATE_BYTES 128

struct image_random {
    struct random_data random;
    int32_t default_state[DEFAULT_STATE_BYTES / sizeof(int32_t)];
    struct drand48_data drand48; /* all zero initially, as in glibc */
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

/* The generators of threads of no rank. */
static struct image_libc process = {.has_threads = true, .lock = PTHREAD_MUTEX_INITIALIZER};

/* Locks and returns the generators of the calling thread's rank: all its threads share them, as in libc,
 * one thread at a time. */
static struct image_random *take(void)
{
    struct image_libc *libc = image_libc_current();

    if (!libc)
        libc = &process;
    image_libc_lock(libc);
    if (!libc->random)
        libc->random = create();
    return libc->random;
}

static void give_back(void)
{
    struct image_libc *libc = image_libc_current();

    image_libc_unlock(libc ? libc : &process);
}

/* ---- random ---- */

static long image_libc_random(void)
{
    int32_t value = 0;

    random_r(&take()->random, &value);
    give_back();
    return value;
}
IMAGE_REBINDS(image_libc_random, "random");

static int image_libc_rand(void)
{
    return (int)image_libc_random();
}
IMAGE_REBINDS(image_libc_rand, "rand");

static void image_libc_srandom(unsigned seed)
{
    srandom_r(seed, &take()->random);
    give_back();
}
IMAGE_REBINDS(image_libc_srandom, "srand", "srandom");

/* Returns the previous state as the address of its array, which starts with the type word. */
static char *image_libc_initstate(unsigned seed, char *state, size_t size_bytes)
{
    struct image_random *generators = take();
    char *old = (char *)(generators->random.state - 1);
    int result = initstate_r(seed, state, size_bytes, &generators->random);

    give_back();
    return result == 0 ? old : NULL;
}
IMAGE_REBINDS(image_libc_initstate, "initstate");

static char *image_libc_setstate(char *state)
{
    struct image_random *generators = take();
    char *old = (char *)(generators->random.state - 1);
    int result = setstate_r(state, &generators->random);

    give_back();
    return result == 0 ? old : NULL;
}
IMAGE_REBINDS(image_libc_setstate, "setstate");

/* ---- drand48 ---- */

/* Functions that return a number; the last three also change the generator that they are given. */
#define DRAWS(type, function, parameters, ...)              \
    static type image_libc_##function parameters            \
    {                                                       \
        type value = 0;                                     \
                                                            \
        function##_r(__VA_ARGS__ &take()->drand48, &value); \
        give_back();                                        \
        return value;                                       \
    }                                                       \
    IMAGE_REBINDS(image_libc_##function, #function)

DRAWS(double, drand48, (void));
DRAWS(long, lrand48, (void));
DRAWS(long, mrand48, (void));
DRAWS(double, erand48, (unsigned short xsubi[3]), xsubi, );
DRAWS(long, nrand48, (unsigned short xsubi[3]), xsubi, );
DRAWS(long, jrand48, (unsigned short xsubi[3]), xsubi, );

static void image_libc_srand48(long seed)
{
    srand48_r(seed, &take()->drand48);
    give_back();
}
IMAGE_REBINDS(image_libc_srand48, "srand48");

static unsigned short *image_libc_seed48(unsigned short seed[3])
{
    struct drand48_data *data = &take()->drand48;

    seed48_r(seed, data);
    give_back();
    return data->__old_x;
}
IMAGE_REBINDS(image_libc_seed48, "seed48");

static void image_libc_lcong48(unsigned short param[7])
{
    lcong48_r(param, &take()->drand48);
    give_back();
}
IMAGE_REBINDS(image_libc_lcong48, "lcong48");
