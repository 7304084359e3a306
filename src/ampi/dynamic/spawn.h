/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spawn.h: ranks that a rank spawns: in its process, as copies of its program or of another one (spawn_ranks.c), or in new
 * processes that the launcher starts (spawn_procs.c).
 *
 * They have an MPI_COMM_WORLD of their own, and world ranks (rank.h) from ampi_job.n_ranks on. At most ampi_job.spawn_room
 * spawned ranks exist in a process at once. At its next spawn, the memory of those that have ended and disconnected is freed,
 * and their numbers can be used again (spawn_numbers.c).
 */
#ifndef AMPI_SPAWN_H
#define AMPI_SPAWN_H

#include "ampi/create/comm_create.h"

enum ampi_spawn_release { AMPI_SPAWN_RELEASED, AMPI_SPAWN_LATER, AMPI_SPAWN_NEVER };

/* Functions of the job room. */
struct ampi_spawn_job {
    /* Creates the stack and the copy of the program of a rank, on any PE. False, with errno: not possible. Never
     * switches. */
    bool (*prepare)(struct ampi_rank *rank) BASE_MUST_CHECK;
    /* Queues it, on its PE. Never switches. */
    void (*start)(struct ampi_rank *rank);
    /* Frees stack and copy of a rank that has ended, or was never started. Never switches. */
    void (*release)(struct ampi_rank *rank);
    /* The same for one that has ended: unless something may still refer to them. On its PE, on another ULT. */
    enum ampi_spawn_release (*try_release)(struct ampi_rank *rank);
};
extern const struct ampi_spawn_job *ampi_spawn_job;

/* Ranks with equal arguments. */
struct ampi_spawn_part {
    const char *command; /* argv[0] */
    struct image_program *program;
    char *const *argv; /* the arguments after it, NULL-terminated; NULL: none */
    int n_ranks;
    int max_ranks;       /* the requested ones */
    int initial_errors;  /* see struct ampi_rank */
    char *path;          /* its file, absolute; malloc'ed */
    char *dir;           /* its folder, absolute; malloc'ed */
    char *line;          /* of a script: its first line, which command and argv use; malloc'ed */
    char **words;        /* of a script: argv; malloc'ed */
    bool is_own_program; /* the file is the program of this process */
};

/* Spawns the ranks of all parts, whose sum is not 0, as one MPI_COMM_WORLD. Sets leader->side and agreement, for
 * ampi_comm_create_inter over comm. Returns an error class, with its reason in text: then no rank was started. May
 * switch. */
int ampi_spawn_run(struct ampi_comm *comm, const struct ampi_spawn_part *parts, int n_parts,
                   struct ampi_comm_leader *leader, char *text, size_t text_bytes);

/* ---- Numbers (spawn_numbers.c) ---- */

/* Takes consecutive numbers for n ranks. NULL: so many are not left. */
struct ampi_spawned *ampi_spawn_take_numbers(int n_ranks);

/* Gives back the numbers of ranks that were not started, and frees their memory. */
void ampi_spawn_drop(struct ampi_spawned *group);

/* Called by a spawned rank of this process as its last step. */
void ampi_spawn_leave(struct ampi_rank *self);

/* True if ranks have left since their memory was last freed. */
bool ampi_spawn_has_left(void);

/* Frees the memory of the PE's ranks that have left, on the PE, which may be a thread of another rank. If no other ULT has run
 * since, the PE's own thread is still on the last one's stack: that one stays until the next call. */
void ampi_spawn_release_left(int pe_id);

/* True if the launcher can start processes. */
bool ampi_spawn_can_start_processes(void);

/* The same as ampi_spawn_run, in new processes. The leaders of both sides have met then. May switch. */
int ampi_spawn_run_processes(const struct ampi_spawn_part *parts, int n_parts,
                             struct ampi_comm_leader *leader, char *text, size_t text_bytes);

/* Called by each rank of a spawned process in MPI_Init: creates the intercommunicator with the parents. Raises errors. May
 * switch. */
int ampi_spawn_meet_parents(struct ampi_rank *self);

#endif
