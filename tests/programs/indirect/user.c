/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a program whose library uses MPI runs as ranks: each has its variables, its environment, threads that belong
 * to it, and nothing of an option that is Heddle's.
 */
#include "library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int counter;
static __thread int thread_counter;

static void *count(void *arg)
{
    (void)arg;
    thread_counter++;
    counter += thread_counter;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    counter++;
    pthread_create(&thread, NULL, count, NULL);
    pthread_join(thread, NULL);
    library_begin();
    printf("%d arguments, sum %d, counter %d, HOME %s\n", argc, library_sum(), counter, getenv("HOME"));
    library_end();
    return argv[argc] != NULL;
}
