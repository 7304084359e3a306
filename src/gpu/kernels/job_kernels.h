/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job_kernels.h: many moves between layouts in one launch.
 *
 * The work is divided into pieces of equal size, whatever the job, and a warp takes one piece after the other:
 * it finds the job by a search in the arguments, and each lane then finds its units by itself. So short and long
 * jobs are in progress together.
 */
#ifndef GPU_KERNELS_JOB_KERNELS_H
#define GPU_KERNELS_JOB_KERNELS_H

#include "gpu/kernels/pack_kernels.h"

GPU_FN int64_t place_in_body(const struct gpu_kernel_places &p, uint32_t within, uint32_t unit)
{
    uint32_t piece;

    if (!p.offsets)
        return (int64_t)within * unit;
    piece = divide(p.piece, within);
    return (int64_t)*GPU_AT(const int32_t, p.offsets + (uint64_t)piece * sizeof(int32_t)) * p.scale +
           (int64_t)(within - piece * p.piece.by) * unit;
}

/* The addresses of the unit with this number. */
GPU_FN void place_unit(const struct gpu_kernel_shape &s, uint32_t number, uint64_t *to, uint64_t *from)
{
    uint32_t index = divide(s.body, number), within = number - index * s.body.by, last = s.n_dims - 1;

    *to += (uint64_t)place_in_body(s.to, within, s.unit);
    *from += (uint64_t)place_in_body(s.from, within, s.unit);
    for (uint32_t d = 0; d < last; d++) {
        uint32_t outer = divide(s.dim[d], index);
        int64_t turn = index - outer * s.dim[d].by;
        *to += (uint64_t)(turn * s.to_stride[d]);
        *from += (uint64_t)(turn * s.from_stride[d]);
        index = outer;
    }
    *to += (uint64_t)(index * s.to_stride[last]);
    *from += (uint64_t)(index * s.from_stride[last]);
}

/* Units that a lane loads before it stores the first. */
#ifndef GPU_JOBS_UNITS
#define GPU_JOBS_UNITS 2
#endif

/* Units begin .. end - 1 of a job. */
template <typename T>
GPU_FN void move_units(const struct gpu_kernel_shape &s, const struct gpu_kernel_job &job, uint32_t begin,
                       uint32_t end, uint32_t lane)
{
    for (uint32_t i = begin + lane; i < end; i += GPU_JOBS_LANES * GPU_JOBS_UNITS) {
        uint64_t to[GPU_JOBS_UNITS] = {};
        T value[GPU_JOBS_UNITS] = {};
        GPU_UNROLL
        for (uint32_t j = 0; j < GPU_JOBS_UNITS; j++) {
            uint64_t from = job.from;
            to[j] = job.to;
            if (i + j * GPU_JOBS_LANES < end) {
                place_unit(s, i + j * GPU_JOBS_LANES, &to[j], &from);
                value[j] = *GPU_AT(const T, from);
            }
        }
        GPU_UNROLL
        for (uint32_t j = 0; j < GPU_JOBS_UNITS; j++)
            if (i + j * GPU_JOBS_LANES < end)
                *GPU_AT(T, to[j]) = value[j];
    }
}

GPU_FN void move_piece(const struct gpu_kernel_shape &s, const struct gpu_kernel_job &job, uint32_t begin,
                       uint32_t end, uint32_t lane)
{
    switch (s.unit) {
    case 16:
        return move_units<uint4>(s, job, begin, end, lane);
    case 8:
        return move_units<uint64_t>(s, job, begin, end, lane);
    case 4:
        return move_units<uint32_t>(s, job, begin, end, lane);
    case 2:
        return move_units<uint16_t>(s, job, begin, end, lane);
    default:
        return move_units<uint8_t>(s, job, begin, end, lane);
    }
}

GPU_FN const struct gpu_kernel_job &job_at(const struct gpu_kernel_jobs &a, uint32_t index)
{
    return *(const struct gpu_kernel_job *)&a.words[index * GPU_JOB_WORDS];
}

/* The job that a piece belongs to: the last one that does not begin after it. */
GPU_FN const struct gpu_kernel_job &find_job(const struct gpu_kernel_jobs &a, uint32_t piece)
{
    uint32_t low = 0, high = a.n_jobs;

    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;
        if (job_at(a, mid).piece <= piece)
            low = mid;
        else
            high = mid;
    }
    return job_at(a, low);
}

GPU_FN void jobs_body(const struct gpu_kernel_jobs &a, uint64_t thread, uint64_t n_threads)
{
    uint32_t lane = (uint32_t)(thread % GPU_JOBS_LANES), n_warps = (uint32_t)(n_threads / GPU_JOBS_LANES);

    for (uint32_t piece = (uint32_t)(thread / GPU_JOBS_LANES); piece < a.n_pieces; piece += n_warps) {
        const struct gpu_kernel_job &job = find_job(a, piece);
        uint32_t skip = (piece - job.piece) * GPU_JOBS_PIECE, left = job.n - skip;
        move_piece(*(const struct gpu_kernel_shape *)&a.words[job.shape], job, job.first + skip,
                   job.first + skip + (left < GPU_JOBS_PIECE ? left : GPU_JOBS_PIECE), lane);
    }
}

#endif
