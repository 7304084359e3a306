/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For reports_test.sh, preloaded: UCX starts one thread more, which ends when the program says so.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

static sem_t end;
static pthread_t thread;

static void *wait_for_end(void *arg)
{
    while (sem_wait(&end) != 0)
        ;
    return arg;
}

void early_end(void)
{
    sem_post(&end);
    pthread_join(thread, NULL);
}

int ucp_init_version(unsigned major, unsigned minor, const void *params, const void *config, void **context)
{
    void *ucx = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    int (*real)(unsigned, unsigned, const void *, const void *, void **) = dlsym(ucx, "ucp_init_version");

    sem_init(&end, 0, 0);
    pthread_create(&thread, NULL, wait_for_end, NULL);
    return real(major, minor, params, config, context);
}
