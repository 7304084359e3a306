/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads of PEs are named, except the first one; a thread and a child process of a rank have the program's name. */
#include "mtest.h"
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void *get_name(void *name)
{
    prctl(PR_GET_NAME, name);
    return NULL;
}

static int is_program(const char *name)
{
    return strcmp(name, "thread_names") == 0;
}

int main(int argc, char **argv)
{
    char of_pe[17] = "", of_thread[17] = "", of_child[17] = "";
    pthread_t thread;
    int status = 0;
    pid_t child;

    mtest_init(&argc, &argv, 1);
    get_name(of_pe);
    MTEST_CHECK(pthread_create(&thread, NULL, get_name, of_thread) == 0, "no thread");
    pthread_join(thread, NULL);
    MTEST_CHECK(is_program(of_thread), "a thread is named %s", of_thread);
    child = fork();
    if (child == 0) {
        get_name(of_child);
        _exit(is_program(of_child) ? 0 : 1);
    }
    MTEST_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
                "the child has another name");
    if (mtest_rank == 0)
        MTEST_CHECK(is_program(of_pe), "the first thread is named %s", of_pe);
    if (mtest_rank == mtest_size - 1)
        printf("the last rank runs on %s\n", of_pe);
    return mtest_end();
}
