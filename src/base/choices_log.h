/* SPDX-License-Identifier: BSD-3-Clause
 *
 * choices_log.h: the log of a run with +schedule choices:... for mpirun --explore all. Both map the file, whose path
 * is in the environment variable HEDDLE_CHOICES_LOG, so that it survives any end of the run.
 */
#ifndef BASE_CHOICES_LOG_H
#define BASE_CHOICES_LOG_H

#include <stdint.h>

#define BASE_CHOICES_VARIABLE "HEDDLE_CHOICES_LOG"

/* A run with more choices ends with a message. */
#define BASE_CHOICES_MAX 16384

enum base_choice_kind {
    BASE_CHOICE_SENDS,   /* 0: sends of short messages do not wait for their receives, 1: all do */
    BASE_CHOICE_MESSAGE, /* the source of a receive or a probe */
    BASE_CHOICE_REQUEST, /* the index of MPI_Waitany or MPI_Testany */
    BASE_CHOICE_POLL,    /* 1: a call such as MPI_Test finds nothing */
};

struct base_choice {
    uint16_t n_alternatives; /* without the one to wait for others */
    uint16_t chosen;         /* n_alternatives: waits for another alternative */
    uint8_t kind;            /* enum base_choice_kind */
    uint8_t has_late;        /* another alternative came later: to wait is worth a run */
    uint16_t pad;
    int32_t rank; /* whose call it is; -1: all */
    int32_t id;   /* the source or index that was chosen */
};

struct base_choices_log {
    uint32_t n_choices;
    uint8_t is_redundant; /* the run ended early: another run is equal */
    uint8_t has_departed; /* the choices do not fit: the program does not repeat its run */
    uint8_t has_polls;    /* there was a choice of the kind BASE_CHOICE_POLL */
    uint8_t has_waiting;  /* a collective call waited for all ranks, which it need not do */
    char unseen[32];      /* a call whose order is not explored; "": none */
    struct base_choice choices[BASE_CHOICES_MAX];
};

#endif
