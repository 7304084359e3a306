/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: code on the stack runs in a rank, if the program asks for executable stacks: the address of a nested function, which the
 * compiler of C or Fortran builds there; after a switch to other ranks, and in a thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Sorts with a nested function that uses a variable of this one. */
static int sort_numbers(void)
{
    int numbers[] = {3, 1, 2}, n_calls = 0;

    int compare(const void *a, const void *b)
    {
        n_calls++;
        return *(const int *)a - *(const int *)b;
    }
    qsort(numbers, 3, sizeof numbers[0], compare);
    return n_calls >= 2 && numbers[0] == 1 && numbers[1] == 2 && numbers[2] == 3;
}

static void *in_thread(void *is_right)
{
    *(int *)is_right = sort_numbers();
    return NULL;
}

int main(void)
{
    int is_right = sort_numbers(), is_right_there = 0;
    pthread_t thread;

    usleep(1);
    is_right &= sort_numbers();
    if (pthread_create(&thread, NULL, in_thread, &is_right_there) != 0)
        return 1;
    pthread_join(thread, NULL);
    if (!is_right || !is_right_there) {
        printf("wrong\n");
        return 1;
    }
    printf("ok\n");
    return 0;
}
