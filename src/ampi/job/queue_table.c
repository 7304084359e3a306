/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queue_table.c: what debuggers need to show message queues: the path of libheddle_mqd.so, and the table by which it finds the
 * queues (mqd/queue_table.h). Both are exported: a stripped library has them.
 */
#include <stdio.h>

#include "ampi/comm/comm.h"
#include "ampi/comm/contexts.h"
#include "ampi/job/job.h"
#include "ampi/object/gate.h"
#include "ampi/p2p/message.h"
#include "ampi/p2p/partitioned/partitioned.h"
#include "ampi/p2p/request.h"
#include "base/place.h"
#include "mqd/queue_table.h"

#define CHECK_SIZE(name, structure, member, bytes)                                              \
    _Static_assert((bytes) == -1 || sizeof(((struct structure *)0)->member) == (size_t)(bytes), \
                   "libheddle_mqd.so reads another size: " #structure "." #member);
MQD_FIELDS(CHECK_SIZE)

#pragma GCC visibility push(default)
extern const struct mqd_queue_table MPIR_heddle_queues;
extern char MPIR_dll_name[];
#pragma GCC visibility pop

#define OFFSET(name, structure, member, bytes) [MQD_##name] = (uint32_t)offsetof(struct structure, member),
#define SIZE(name, structure) [MQD_##name] = (uint32_t)sizeof(struct structure),
const struct mqd_queue_table MPIR_heddle_queues = {
    .magic = MQD_MAGIC,
    .version = MQD_VERSION,
    .n_fields = MQD_N_FIELDS,
    .comms = (uint64_t)(uintptr_t)&ampi_comm_first_watched,
    .job = (uint64_t)(uintptr_t)&ampi_job,
    .cross_context = AMPI_CONTEXT_CROSS,
    .comm_magic = AMPI_MAGIC_COMM,
    .request_magic = AMPI_MAGIC_REQUEST,
    .fields = {MQD_FIELDS(OFFSET) MQD_SIZES(SIZE)},
};

/* For debuggers that read the file; the process has the path of the library that it runs. */
char MPIR_dll_name[1024] = HEDDLE_MQD_PATH;

void ampi_queue_table_place(void)
{
    char *path = base_place_of("libheddle_mqd.so");

    if (path)
        snprintf(MPIR_dll_name, sizeof MPIR_dll_name, "%s", path);
    free(path);
}
