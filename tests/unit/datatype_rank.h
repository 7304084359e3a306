/* SPDX-License-Identifier: BSD-3-Clause
 *
 * datatype_rank.h: lets the datatype tests call MPI functions without starting a job: the test's thread looks
 * like an initialised rank whose communicators return errors.
 */
#ifndef DATATYPE_RANK_H
#define DATATYPE_RANK_H

#include "ampi/comm/comm.h"
#include "ampi/object/errhandler.h"
#include "ampi/object/rank.h"
#include "ampi/datatype/type.h"

static struct ampi_comm datatype_comm = {.magic = AMPI_MAGIC_COMM};
static struct ampi_rank datatype_rank = {.state = AMPI_RANK_INITIALIZED};

/* Call at the start of each test. */
static inline void datatype_rank_start(void)
{
    datatype_comm.errhandler = &ampi_errors_return;
    datatype_comm.owner = &datatype_rank;
    datatype_rank.world = &datatype_comm;
    datatype_rank.self = &datatype_comm;
    datatype_rank.ult.owner = &datatype_rank;
    ult_current = &datatype_rank.ult;
    if (!ampi_type_predefined[(uintptr_t)MPI_INT - AMPI_TYPE_FIRST])
        ampi_type_init();
}

#endif
