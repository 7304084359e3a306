/* SPDX-License-Identifier: BSD-3-Clause */
/* A tool that stands in front of MPI_Init and counts by events of MPI_T, all of which it registers for before MPI starts. It
 * prints what count.c prints, and what does not add up. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPES_MAX = 64 };

static MPI_T_event_registration registrations[TYPES_MAX];
static long n_seen[TYPES_MAX], n_barriers;
static int n_types, barrier_type = -1;

static void on_event(MPI_T_event_instance event, MPI_T_event_registration registration,
                     MPI_T_cb_safety safety, void *type)
{
    MPI_Aint name;
    (void)registration, (void)safety;

    n_seen[(long *)type - n_seen]++;
    if ((long *)type - n_seen == barrier_type && MPI_T_event_read(event, 1, &name) == MPI_SUCCESS)
        n_barriers += strcmp((const char *)name, "barrier") == 0;
}

static void on_dropped(MPI_Count count, MPI_T_event_registration registration, int source,
                       MPI_T_cb_safety safety, void *type)
{
    (void)registration, (void)source, (void)safety;
    n_seen[(long *)type - n_seen] += (long)count;
}

static void start(void)
{
    int provided, n = 0, bind;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_event_get_num(&n);
    MPI_T_event_get_index("heddle_collective_end", &barrier_type);
    for (int i = 0; i < n && i < TYPES_MAX; i++) {
        MPI_T_event_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &bind);
        if (bind != MPI_T_BIND_NO_OBJECT)
            break;
        MPI_T_event_handle_alloc(i, NULL, MPI_INFO_NULL, &registrations[i]);
        MPI_T_event_set_dropped_handler(registrations[i], on_dropped);
        MPI_T_event_register_callback(registrations[i], MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_INFO_NULL,
                                      &n_seen[i], on_event);
        n_types = i + 1;
    }
}

int MPI_Init(int *argc, char ***argv)
{
    start();
    return PMPI_Init(argc, argv);
}

static long seen(const char *name)
{
    int index = 0;

    MPI_T_event_get_index(name, &index);
    return n_seen[index];
}

int MPI_Finalize(void)
{
    int rank, n_wrong;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < n_types; i++)
        MPI_T_event_handle_free(registrations[i], NULL, NULL);
    printf("rank %d: %ld sends, %ld receives, %ld barriers\n", rank, seen("heddle_send_completed"),
           seen("heddle_receive_completed"), n_barriers);
    n_wrong = (seen("heddle_send_posted") != seen("heddle_send_completed")) +
              (seen("heddle_receive_posted") != seen("heddle_receive_completed")) +
              (seen("heddle_message_matched") != seen("heddle_receive_completed")) +
              (seen("heddle_collective_begin") != seen("heddle_collective_end")) +
              (seen("heddle_message_unexpected") > seen("heddle_message_matched"));
    if (n_wrong && !getenv("EVENTS_OF_ANY_PROGRAM"))
        printf("rank %d: %d sums are wrong\n", rank, n_wrong);
    MPI_T_finalize();
    return PMPI_Finalize();
}
