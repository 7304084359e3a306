/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzzes MPI_Unpack_external: the first bytes of the input choose a type, a count and a position, the rest is
 * the packed data. The buffers have exactly the required size, so that AddressSanitizer detects one byte too
 * many.
 */
#include <string.h>

#include "../unit/datatype_rank.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static MPI_Datatype types[12];
static int n_types;

static void make_types(void)
{
    const MPI_Datatype plain[] = {MPI_INT,    MPI_DOUBLE, MPI_CHAR,        MPI_LONG,
                                  MPI_C_BOOL, MPI_WCHAR,  MPI_LONG_DOUBLE, MPI_DOUBLE_INT};
    MPI_Datatype made;

    datatype_rank_start();
    for (size_t i = 0; i < BASE_COUNT(plain); i++)
        types[n_types++] = plain[i];
    MPI_Type_vector(3, 2, 5, MPI_SHORT, &made);
    types[n_types++] = made;
    MPI_Type_create_struct(3, (int[]){1, 3, 2}, (MPI_Aint[]){0, 16, 80},
                           (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, made}, &made);
    types[n_types++] = made;
    MPI_Type_create_hindexed(2, (int[]){2, 0}, (MPI_Aint[]){400, 7}, made, &made);
    types[n_types++] = made;
    for (int i = (int)BASE_COUNT(plain); i < n_types; i++)
        MPI_Type_commit(&types[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    MPI_Datatype type;
    MPI_Aint position, before, packed_bytes, lb, extent;
    int count;
    char *packed, *out;

    if (n_types == 0)
        make_types();
    if (size < 3)
        return 0;
    type = types[data[0] % n_types];
    count = data[1] % 20;
    before = position = (int8_t)data[2];
    packed_bytes = (MPI_Aint)size - 3;
    packed = malloc((size_t)packed_bytes + 1);
    memcpy(packed, data + 3, (size_t)packed_bytes);
    packed = realloc(packed, packed_bytes ? (size_t)packed_bytes : 1);
    MPI_Type_get_true_extent(type, &lb, &extent);
    out = calloc(1, (size_t)(lb + extent) + (count > 1 ? (size_t)(count - 1) * 2048 : 0) + 1);
    if (MPI_Unpack_external("external32", packed, packed_bytes, &position, out, count, type) == MPI_SUCCESS
            ? position < before || position > packed_bytes
            : position != before)
        abort();
    free(packed);
    free(out);
    return 0;
}
