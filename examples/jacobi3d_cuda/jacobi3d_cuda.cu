/* SPDX-License-Identifier: BSD-3-Clause
 *
 * jacobi3d_cuda: the steady temperature of a box, by Jacobi iterations on GPUs.
 *
 * Solves laplace(u) = 0 on NX x NY x NZ interior points. The bottom face (z = 0) is held at temperature 1, the
 * other faces at 0. One iteration replaces every point by the mean of its six neighbours. With --periodic the box has no faces:
 * opposite ends are neighbours, and its points begin with different values. So each block has six messages to send, also that of a single rank.
 *
 * The box is cut into blocks by MPI_Dims_create, one per rank, each with a layer of ghost points. An iteration
 * packs the faces of the block into buffers, exchanges them with the neighbours, unpacks the received ones into
 * the ghost layer and computes the new values. The buffers that MPI gets are the device's, or (--staged) pinned
 * ones of the host; or (--datatypes) it gets the block itself, and datatypes that describe the faces. All work is in the default stream and cudaDeviceSynchronize waits for it, or (--streams) in
 * a stream of the rank, for which cudaStreamSynchronize waits.
 *
 * With --graph, an iteration and its messages (MPIX_Isend_enqueue, ..., of MPICH's extension, which may be captured in Heddle) are a CUDA
 * graph. There are two, since the fields change places after each iteration. The host launches one graph per iteration, and waits at the end.
 *
 * With --fuse, an iteration has fewer kernels than 13: A: one packs all faces; B: and one unpacks all; C: one does all of it. Its points at the
 * block's ends are computed from the received faces, and are written into those to be sent as well.
 */
#include <cuda_runtime.h>
#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <utility>
#include <vector>

#define CUDA_CHECK(call)                                                                                   \
    do {                                                                                                   \
        cudaError_t error_ = (call);                                                                       \
        if (error_ != cudaSuccess) {                                                                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_));     \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                  \
        }                                                                                                  \
    } while (0)

enum { X, Y, Z };
#define FACES 6 /* face f: direction f / 2; at its lower end if f is even, at its upper end otherwise */
#define HOT_FACE 4
#define HOT_TEMPERATURE 1.0

/* ---- The options ---- */
static int global_points[3] = {256, 256, 256};
static int iterations = 100, warmup_iterations = 10;
static int is_staged, has_datatypes, has_own_stream, has_blocking_copies, has_graphs, is_periodic, does_check;
static enum fusion { FUSE_NONE, FUSE_PACKING, FUSE_UNPACKING, FUSE_ALL } fusion; /* each with those before it */

/* ---- The process grid and this rank's block ---- */
static MPI_Comm grid_comm;
static int world_rank, world_size, grid_dims[3], grid_coords[3], neighbours[FACES];
static int first_point[3]; /* the global number of the block's first interior point, counted from 0 */
static int n[3];           /* its interior points per direction */

/* ---- On the device ---- */
static cudaStream_t stream; /* stays 0, the default stream, without --streams */
static double *u, *u_new;   /* (n[X] + 2) * (n[Y] + 2) * (n[Z] + 2) points */
static double *device_send[FACES], *device_recv[FACES];
static double *host_send[FACES], *host_recv[FACES]; /* with --staged */
static MPI_Datatype face_types[FACES], ghost_types[FACES]; /* of a block, with --datatypes */

/* The buffers of all faces, as the kernels take them; NULL: there is no neighbour. */
struct faces {
    double *of[FACES];
};

/* A block's extents as the kernels take them. */
struct extents {
    int nx, ny, nz;

    __host__ __device__ size_t index(int i, int j, int k) const
    {
        return ((size_t)k * (ny + 2) + j) * (nx + 2) + i;
    }
    /* Point (a, b) of a face's plane; level 0 is the ghost layer, level 1 the outermost interior one. */
    __host__ __device__ size_t face_index(int face, int a, int b, int level) const
    {
        int extent = face / 2 == X ? nx : face / 2 == Y ? ny : nz;
        int at = face % 2 == 0 ? level : extent + 1 - level;
        return face / 2 == X ? index(at, a + 1, b + 1) : face / 2 == Y ? index(a + 1, at, b + 1)
                                                                      : index(a + 1, b + 1, at);
    }
    __host__ __device__ int face_width(int face) const { return face / 2 == X ? ny : nx; }
    __host__ __device__ int face_height(int face) const { return face / 2 == Z ? ny : nz; }
    __host__ __device__ int face_points(int face) const { return face_width(face) * face_height(face); }
    size_t points() const { return (size_t)(nx + 2) * (ny + 2) * (nz + 2); }
};

/* ---- Kernels ---- */

__global__ void pack_face(const double *__restrict__ from, double *__restrict__ face_buffer, extents e, int face)
{
    int a = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y * blockDim.y + threadIdx.y;
    if (a < e.face_width(face) && b < e.face_height(face)) {
        face_buffer[b * e.face_width(face) + a] = from[e.face_index(face, a, b, 1)];
    }
}

__global__ void unpack_face(double *__restrict__ to, const double *__restrict__ face_buffer, extents e, int face)
{
    int a = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y * blockDim.y + threadIdx.y;
    if (a < e.face_width(face) && b < e.face_height(face)) {
        to[e.face_index(face, a, b, 0)] = face_buffer[b * e.face_width(face) + a];
    }
}

__global__ void pack_faces(const double *__restrict__ from, faces send, extents e)
{
    int a = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y * blockDim.y + threadIdx.y, face = blockIdx.z;
    if (send.of[face] && a < e.face_width(face) && b < e.face_height(face)) {
        send.of[face][b * e.face_width(face) + a] = from[e.face_index(face, a, b, 1)];
    }
}

__global__ void unpack_faces(double *__restrict__ to, faces recv, extents e)
{
    int a = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y * blockDim.y + threadIdx.y, face = blockIdx.z;
    if (recv.of[face] && a < e.face_width(face) && b < e.face_height(face)) {
        to[e.face_index(face, a, b, 0)] = recv.of[face][b * e.face_width(face) + a];
    }
}

/* The same operations in the same order on the host and on the device, so that results compare exactly. */
__host__ __device__ inline double mean(double west, double east, double south, double north, double below, double above)
{
    return (west + east + south + north + below + above) * (1.0 / 6.0);
}

__host__ __device__ inline double relaxed(const double *from, const extents &e, size_t at)
{
    size_t row = e.nx + 2, plane = row * (e.ny + 2);
    return mean(from[at - 1], from[at + 1], from[at - row], from[at + row], from[at - plane], from[at + plane]);
}

__global__ void relax(const double *__restrict__ from, double *__restrict__ to, extents e)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1, j = blockIdx.y * blockDim.y + threadIdx.y + 1,
        k = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (i <= e.nx && j <= e.ny && k <= e.nz) {
        size_t at = e.index(i, j, k);
        to[at] = relaxed(from, e, at);
    }
}

/* Unpacks, relaxes and packs for the next iteration. */
__global__ void relax_with_faces(const double *__restrict__ from, double *__restrict__ to, faces recv, faces send,
                                 extents e)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1, j = blockIdx.y * blockDim.y + threadIdx.y + 1,
        k = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (i > e.nx || j > e.ny || k > e.nz) {
        return;
    }
    size_t at = e.index(i, j, k), row = e.nx + 2, plane = row * (e.ny + 2);
    size_t in_x = (size_t)(k - 1) * e.ny + j - 1, in_y = (size_t)(k - 1) * e.nx + i - 1, /* the point's place in a face */
        in_z = (size_t)(j - 1) * e.nx + i - 1;
    bool is_end[FACES] = {i == 1, i == e.nx, j == 1, j == e.ny, k == 1, k == e.nz};
    double value = mean(is_end[0] && recv.of[0] ? recv.of[0][in_x] : from[at - 1],
                        is_end[1] && recv.of[1] ? recv.of[1][in_x] : from[at + 1],
                        is_end[2] && recv.of[2] ? recv.of[2][in_y] : from[at - row],
                        is_end[3] && recv.of[3] ? recv.of[3][in_y] : from[at + row],
                        is_end[4] && recv.of[4] ? recv.of[4][in_z] : from[at - plane],
                        is_end[5] && recv.of[5] ? recv.of[5][in_z] : from[at + plane]);
    to[at] = value;
    for (int f = 0; f < FACES; f++) {
        if (is_end[f] && send.of[f]) {
            send.of[f][f / 2 == X ? in_x : f / 2 == Y ? in_y : in_z] = value;
        }
    }
}

/* ---- Set-up ---- */

/* The first value of a point of the whole box, with --periodic: from 0 to 1. */
static double first_value(int i, int j, int k)
{
    unsigned bits = ((unsigned)k * 73856093u ^ (unsigned)j * 19349663u ^ (unsigned)i * 83492791u) * 2654435761u;
    return (bits >> 8) / 16777216.0;
}

/* All points of a box; first: the number of its first point in the whole box. */
static void set_first_values(double *values, const extents &e, const int *first)
{
    for (int k = 1; k <= e.nz; k++) {
        for (int j = 1; j <= e.ny; j++) {
            for (int i = 1; i <= e.nx; i++) {
                values[e.index(i, j, k)] = first_value(first[X] + i - 1, first[Y] + j - 1, first[Z] + k - 1);
            }
        }
    }
}

static void set_hot_plane(double *values, const extents &e)
{
    for (int j = 0; j < e.ny + 2; j++) {
        for (int i = 0; i < e.nx + 2; i++) {
            values[e.index(i, j, 0)] = HOT_TEMPERATURE;
        }
    }
}

static void choose_device(void)
{
    MPI_Comm node_comm;
    int local_rank, n_devices;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &node_comm);
    MPI_Comm_rank(node_comm, &local_rank);
    MPI_Comm_free(&node_comm);
    CUDA_CHECK(cudaGetDeviceCount(&n_devices));
    CUDA_CHECK(cudaSetDevice(local_rank % n_devices));
}

/* Returns whether every rank has at least one point. */
static int make_grid(void)
{
    int periods[3] = {is_periodic, is_periodic, is_periodic}, is_good = 1;
    MPI_Dims_create(world_size, 3, grid_dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, grid_dims, periods, 0, &grid_comm);
    MPI_Cart_coords(grid_comm, world_rank, 3, grid_coords);
    for (int d = 0; d < 3; d++) {
        int share = global_points[d] / grid_dims[d], rest = global_points[d] % grid_dims[d];
        n[d] = share + (grid_coords[d] < rest);
        first_point[d] = grid_coords[d] * share + std::min(grid_coords[d], rest);
        MPI_Cart_shift(grid_comm, d, 1, &neighbours[2 * d], &neighbours[2 * d + 1]);
        if (share == 0) {
            is_good = 0;
            if (world_rank == 0) {
                fprintf(stderr, "jacobi3d_cuda: %d points cannot be cut into %d blocks\n", global_points[d],
                        grid_dims[d]);
            }
        }
    }
    return is_good;
}

/* The outermost interior points of a face (level 1), or its ghost points (level 0), as part of the block. */
static MPI_Datatype make_face_type(int face, int level)
{
    int sizes[3] = {n[Z] + 2, n[Y] + 2, n[X] + 2}, subsizes[3] = {n[Z], n[Y], n[X]}, starts[3] = {1, 1, 1};
    int d = face / 2;
    MPI_Datatype type;
    subsizes[2 - d] = 1;
    starts[2 - d] = face % 2 == 0 ? level : n[d] + 1 - level;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void make_block(void)
{
    extents e = {n[X], n[Y], n[Z]};
    size_t plane = (size_t)(n[X] + 2) * (n[Y] + 2);
    if (has_own_stream) {
        CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    for (double **field : {&u, &u_new}) {
        CUDA_CHECK(cudaMalloc(field, e.points() * sizeof(double)));
        CUDA_CHECK(cudaMemset(*field, 0, e.points() * sizeof(double)));
        if (is_periodic) {
            std::vector<double> values(e.points(), 0.0);
            set_first_values(values.data(), e, first_point);
            CUDA_CHECK(cudaMemcpy(*field, values.data(), e.points() * sizeof(double), cudaMemcpyHostToDevice));
        } else if (neighbours[HOT_FACE] == MPI_PROC_NULL) {
            std::vector<double> hot(plane, HOT_TEMPERATURE);
            CUDA_CHECK(cudaMemcpy(*field, hot.data(), plane * sizeof(double), cudaMemcpyHostToDevice));
        }
    }
    for (int f = 0; f < FACES; f++) {
        size_t bytes = e.face_points(f) * sizeof(double);
        face_types[f] = make_face_type(f, 1);
        ghost_types[f] = make_face_type(f, 0);
        CUDA_CHECK(cudaMalloc(&device_send[f], bytes));
        CUDA_CHECK(cudaMalloc(&device_recv[f], bytes));
        if (is_staged) {
            CUDA_CHECK(cudaMallocHost(&host_send[f], bytes));
            CUDA_CHECK(cudaMallocHost(&host_recv[f], bytes));
        }
    }
    CUDA_CHECK(cudaDeviceSynchronize()); /* the fields are set before work in any stream begins */
}

static void free_block(void)
{
    for (int f = 0; f < FACES; f++) {
        MPI_Type_free(&face_types[f]);
        MPI_Type_free(&ghost_types[f]);
        CUDA_CHECK(cudaFree(device_send[f]));
        CUDA_CHECK(cudaFree(device_recv[f]));
        CUDA_CHECK(cudaFreeHost(host_send[f]));
        CUDA_CHECK(cudaFreeHost(host_recv[f]));
    }
    CUDA_CHECK(cudaFree(u));
    CUDA_CHECK(cudaFree(u_new));
    if (has_own_stream) {
        CUDA_CHECK(cudaStreamDestroy(stream));
    }
}

/* ---- The iteration ---- */

static void synchronize(void)
{
    if (has_own_stream) {
        CUDA_CHECK(cudaStreamSynchronize(stream));
    } else {
        CUDA_CHECK(cudaDeviceSynchronize());
    }
}

static void stage(double *to, const double *from, size_t bytes, cudaMemcpyKind kind)
{
    if (has_blocking_copies) {
        CUDA_CHECK(cudaMemcpy(to, from, bytes, kind));
    } else {
        CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, kind, stream));
    }
}

/* From block to block. */
static void exchange_by_datatypes(void)
{
    MPI_Request requests[2 * FACES];
    synchronize();
    for (int f = 0; f < FACES; f++) {
        MPI_Irecv(u, 1, ghost_types[f], neighbours[f], f ^ 1, grid_comm, &requests[f]);
    }
    for (int f = 0; f < FACES; f++) {
        MPI_Isend(u, 1, face_types[f], neighbours[f], f, grid_comm, &requests[FACES + f]);
    }
    MPI_Waitall(2 * FACES, requests, MPI_STATUSES_IGNORE);
}

static faces with_neighbours(double *const *buffers)
{
    faces some;
    for (int f = 0; f < FACES; f++) {
        some.of[f] = neighbours[f] != MPI_PROC_NULL ? buffers[f] : NULL;
    }
    return some;
}

static dim3 face_blocks(int width, int height, int n_faces)
{
    return dim3((width + 31) / 32, (height + 7) / 8, n_faces);
}

/* The blocks for the largest face in each direction, for all faces. */
static dim3 all_face_blocks(void)
{
    return face_blocks(std::max(n[X], n[Y]), std::max(n[Y], n[Z]), FACES);
}

static void pack_all(void)
{
    extents e = {n[X], n[Y], n[Z]};
    dim3 threads(32, 8);
    pack_faces<<<all_face_blocks(), threads, 0, stream>>>(u, with_neighbours(device_send), e);
}

/* To be called for each face: with --fuse A and B the first call packs all, with C all are packed already. */
static void pack(int f)
{
    extents e = {n[X], n[Y], n[Z]};
    dim3 threads(32, 8);
    if (fusion == FUSE_NONE && neighbours[f] != MPI_PROC_NULL) {
        dim3 blocks = face_blocks(e.face_width(f), e.face_height(f), 1);
        pack_face<<<blocks, threads, 0, stream>>>(u, device_send[f], e, f);
    } else if (f == 0 && (fusion == FUSE_PACKING || fusion == FUSE_UNPACKING)) {
        pack_all();
    }
}

/* To be called for each face, when all have arrived. */
static void unpack(int f)
{
    extents e = {n[X], n[Y], n[Z]};
    dim3 threads(32, 8);
    if (fusion < FUSE_UNPACKING && neighbours[f] != MPI_PROC_NULL) {
        dim3 blocks = face_blocks(e.face_width(f), e.face_height(f), 1);
        unpack_face<<<blocks, threads, 0, stream>>>(u, device_recv[f], e, f);
    } else if (f == 0 && fusion == FUSE_UNPACKING) {
        unpack_faces<<<all_face_blocks(), threads, 0, stream>>>(u, with_neighbours(device_recv), e);
    }
}

static void exchange_faces(void)
{
    extents e = {n[X], n[Y], n[Z]};
    MPI_Request requests[2 * FACES];
    int n_requests = 0;

    for (int f = 0; f < FACES; f++) {
        pack(f);
        if (is_staged && neighbours[f] != MPI_PROC_NULL) {
            stage(host_send[f], device_send[f], e.face_points(f) * sizeof(double), cudaMemcpyDeviceToHost);
        }
    }
    synchronize(); /* packed; and the received faces of the iteration before are unpacked */
    for (int f = 0; f < FACES; f++) {
        MPI_Irecv(is_staged ? host_recv[f] : device_recv[f], e.face_points(f), MPI_DOUBLE, neighbours[f], f ^ 1,
                  grid_comm, &requests[n_requests++]);
    }
    for (int f = 0; f < FACES; f++) {
        MPI_Isend(is_staged ? host_send[f] : device_send[f], e.face_points(f), MPI_DOUBLE, neighbours[f], f,
                  grid_comm, &requests[n_requests++]);
    }
    MPI_Waitall(n_requests, requests, MPI_STATUSES_IGNORE);
    for (int f = 0; f < FACES; f++) {
        if (is_staged && neighbours[f] != MPI_PROC_NULL) {
            stage(device_recv[f], host_recv[f], e.face_points(f) * sizeof(double), cudaMemcpyHostToDevice);
        }
        if (fusion == FUSE_NONE || fusion == FUSE_PACKING) {
            unpack(f);
        }
    }
    if (fusion == FUSE_UNPACKING) {
        unpack(0);
    }
}

static void relax_block(void)
{
    extents e = {n[X], n[Y], n[Z]};
    dim3 threads(32, 4, 2), blocks((n[X] + 31) / 32, (n[Y] + 3) / 4, (n[Z] + 1) / 2);
    if (fusion == FUSE_ALL) {
        relax_with_faces<<<blocks, threads, 0, stream>>>(u, u_new, with_neighbours(device_recv),
                                                         with_neighbours(device_send), e);
    } else {
        relax<<<blocks, threads, 0, stream>>>(u, u_new, e);
    }
    std::swap(u, u_new);
}

/* ---- The iteration as a CUDA graph ---- */

#ifdef MPIX_STREAM_NULL

static MPIX_Stream mpi_stream;
static MPI_Comm stream_comm;
static cudaGraphExec_t graphs[2]; /* of an iteration from the first field to the second, and back */
static int n_graph_iterations;

/* A full stream would block the calling thread, also for the ranks that share it. So at most twice as many launches wait. */
#define LAUNCHES_PER_EVENT 16
static cudaEvent_t launch_events[2];

static void exchange_in_stream(void)
{
    extents e = {n[X], n[Y], n[Z]};
    MPI_Request requests[2 * FACES];
    for (int f = 0; f < FACES; f++) {
        pack(f);
    }
    for (int f = 0; f < FACES; f++) {
        MPIX_Irecv_enqueue(device_recv[f], e.face_points(f), MPI_DOUBLE, neighbours[f], f ^ 1, stream_comm,
                           &requests[f]);
    }
    for (int f = 0; f < FACES; f++) {
        MPIX_Isend_enqueue(device_send[f], e.face_points(f), MPI_DOUBLE, neighbours[f], f, stream_comm,
                           &requests[FACES + f]);
    }
    MPIX_Waitall_enqueue(2 * FACES, requests, MPI_STATUSES_IGNORE);
    for (int f = 0; f < FACES; f++) {
        unpack(f);
    }
}

static void make_graphs(void)
{
    cudaFuncAttributes unused; /* loads the kernels, which must not happen while a graph waits for this rank */
    MPI_Info info;
    CUDA_CHECK(cudaFuncGetAttributes(&unused, pack_face));
    CUDA_CHECK(cudaFuncGetAttributes(&unused, unpack_face));
    CUDA_CHECK(cudaFuncGetAttributes(&unused, relax));
    CUDA_CHECK(cudaFuncGetAttributes(&unused, pack_faces));
    CUDA_CHECK(cudaFuncGetAttributes(&unused, unpack_faces));
    CUDA_CHECK(cudaFuncGetAttributes(&unused, relax_with_faces));
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    MPIX_Stream_create(info, &mpi_stream);
    MPI_Info_free(&info);
    MPIX_Stream_comm_create(grid_comm, mpi_stream, &stream_comm);
    for (int i = 0; i < 2; i++) {
        cudaGraph_t graph;
        CUDA_CHECK(cudaEventCreateWithFlags(&launch_events[i], cudaEventDisableTiming));
        CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        exchange_in_stream();
        relax_block();
        CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
        CUDA_CHECK(cudaGraphInstantiateWithFlags(&graphs[i], graph, 0));
        CUDA_CHECK(cudaGraphDestroy(graph));
    }
    MPI_Barrier(MPI_COMM_WORLD); /* all graphs are there before the first launch */
}

static void launch_graph(void)
{
    CUDA_CHECK(cudaGraphLaunch(graphs[n_graph_iterations++ % 2], stream));
    std::swap(u, u_new);
    if (n_graph_iterations % LAUNCHES_PER_EVENT == 0) {
        int i = n_graph_iterations / LAUNCHES_PER_EVENT % 2;
        CUDA_CHECK(cudaEventSynchronize(launch_events[1 - i])); /* one that was never recorded is over */
        CUDA_CHECK(cudaEventRecord(launch_events[i], stream));
    }
}

static void free_graphs(void)
{
    MPI_Barrier(MPI_COMM_WORLD); /* no rank's graph waits for messages any more */
    for (int i = 0; i < 2; i++) {
        CUDA_CHECK(cudaGraphExecDestroy(graphs[i]));
        CUDA_CHECK(cudaEventDestroy(launch_events[i]));
    }
    MPI_Comm_free(&stream_comm);
    MPIX_Stream_free(&mpi_stream);
}

#else

static void make_graphs(void)
{
    fprintf(stderr, "jacobi3d_cuda: this MPI has no operations in CUDA streams (MPIX_Stream_create)\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void launch_graph(void)
{
}

static void free_graphs(void)
{
}

#endif

static void iterate(int count)
{
    for (int i = 0; i < count; i++) {
        if (has_graphs) {
            launch_graph();
            continue;
        }
        if (has_datatypes) {
            exchange_by_datatypes();
        } else {
            exchange_faces();
        }
        relax_block();
    }
    synchronize();
    CUDA_CHECK(cudaGetLastError());
}

/* ---- The check ---- */

/* With --periodic: the ghost points are the points of the opposite ends. */
static void wrap(double *values, const extents &e)
{
    for (int f = 0; f < FACES; f++) {
        int extent = f / 2 == X ? e.nx : f / 2 == Y ? e.ny : e.nz;
        for (int b = 0; b < e.face_height(f); b++) {
            for (int a = 0; a < e.face_width(f); a++) {
                values[e.face_index(f, a, b, 0)] = values[e.face_index(f, a, b, extent)];
            }
        }
    }
}

/* The same iterations on the whole box, on the host. */
static std::vector<double> compute_on_host(const extents &e, int count)
{
    static const int first[3] = {0, 0, 0};
    std::vector<double> from(e.points(), 0.0), to;
    if (is_periodic) {
        set_first_values(from.data(), e, first);
    } else {
        set_hot_plane(from.data(), e);
    }
    to = from;
    for (int it = 0; it < count; it++) {
        if (is_periodic) {
            wrap(from.data(), e);
        }
        for (int k = 1; k <= e.nz; k++) {
            for (int j = 1; j <= e.ny; j++) {
                for (int i = 1; i <= e.nx; i++) {
                    to[e.index(i, j, k)] = relaxed(from.data(), e, e.index(i, j, k));
                }
            }
        }
        std::swap(from, to);
    }
    return from;
}

/* The points of one rank's block that differ from the host's result; the first one is printed. */
static long compare_block(const std::vector<double> &block, const int *place, const std::vector<double> &whole)
{
    extents e = {place[0], place[1], place[2]}, all = {global_points[X], global_points[Y], global_points[Z]};
    long n_wrong = 0;
    for (int k = 1; k <= e.nz; k++) {
        for (int j = 1; j <= e.ny; j++) {
            for (int i = 1; i <= e.nx; i++) {
                double is = block[e.index(i, j, k)];
                double should = whole[all.index(i + place[3], j + place[4], k + place[5])];
                if (!(is == should) && n_wrong++ == 0) {
                    printf("point (%d, %d, %d): %.17g instead of %.17g\n", i + place[3], j + place[4],
                           k + place[5], is, should);
                }
            }
        }
    }
    return n_wrong;
}

/* Rank 0 compares all blocks with the host's result; all learn the answer. */
static int check(int count)
{
    extents e = {n[X], n[Y], n[Z]}, all = {global_points[X], global_points[Y], global_points[Z]};
    int place[6] = {n[X], n[Y], n[Z], first_point[X], first_point[Y], first_point[Z]};
    std::vector<double> block(e.points());
    long n_wrong = 0;

    CUDA_CHECK(cudaMemcpy(block.data(), u, e.points() * sizeof(double), cudaMemcpyDeviceToHost));
    if (world_rank != 0) {
        MPI_Send(place, 6, MPI_INT, 0, 0, MPI_COMM_WORLD);
        MPI_Send(block.data(), (int)e.points(), MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
    } else {
        std::vector<double> whole = compute_on_host(all, count);
        n_wrong = compare_block(block, place, whole);
        for (int from = 1; from < world_size; from++) {
            MPI_Recv(place, 6, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            block.resize((size_t)(place[0] + 2) * (place[1] + 2) * (place[2] + 2));
            MPI_Recv(block.data(), (int)block.size(), MPI_DOUBLE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            n_wrong += compare_block(block, place, whole);
        }
        if (n_wrong == 0) {
            printf("check: all points are as computed on the host\n");
        } else {
            printf("CHECK FAILED: %ld points differ from the host's\n", n_wrong);
        }
    }
    MPI_Bcast(&n_wrong, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    return n_wrong == 0;
}

/* ---- The command line ---- */

static void usage(FILE *to)
{
    fprintf(to, "usage: jacobi3d_cuda [NX [NY NZ]] [options]        (default: 256 256 256)\n"
                "  --iterations N   timed iterations (default 100)\n"
                "  --warmup N       iterations before these (default 10)\n"
                "  --staged         MPI gets pinned buffers of the host instead of the device's\n"
                "  --memcpy         with --staged: copy by cudaMemcpy instead of cudaMemcpyAsync\n"
                "  --datatypes      MPI gets the block and datatypes of its faces instead of packed faces\n"
                "  --streams        a non-blocking stream per rank instead of the default stream\n"
                "  --graph          an iteration is a CUDA graph, with its messages (implies --streams)\n"
                "  --fuse A|B|C     one kernel packs all faces; and one unpacks them; one does all of the iteration\n"
                "  --periodic       opposite ends of the box are neighbours, so that each rank has six messages\n"
                "  --check          compare with the host's result; exit code 1 if they differ\n");
}

/* A whole number from least to 100,000,000, or -1 for anything else. */
static int number(const char *text, int least)
{
    char *end;
    long value = strtol(text, &end, 10);
    return end == text || *end || value < least || value > 100000000 ? -1 : (int)value;
}

/* Returns -1 to go on, or the exit code. */
static int parse_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"iterations", required_argument, NULL, 'i'}, {"warmup", required_argument, NULL, 'w'},
        {"staged", no_argument, &is_staged, 1},       {"memcpy", no_argument, &has_blocking_copies, 1},
        {"datatypes", no_argument, &has_datatypes, 1}, {"graph", no_argument, &has_graphs, 1},
        {"streams", no_argument, &has_own_stream, 1}, {"check", no_argument, &does_check, 1},
        {"fuse", required_argument, NULL, 'f'},       {"periodic", no_argument, &is_periodic, 1},
        {"help", no_argument, NULL, 'h'},             {NULL, 0, NULL, 0}};
    int option, is_good = 1;

    opterr = world_rank == 0;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'i') {
            is_good &= (iterations = number(optarg, 1)) > 0;
        } else if (option == 'w') {
            is_good &= (warmup_iterations = number(optarg, 0)) >= 0;
        } else if (option == 'f') {
            is_good &= strlen(optarg) == 1 && strchr("ABC", *optarg) != NULL;
            fusion = *optarg == 'A' ? FUSE_PACKING : *optarg == 'B' ? FUSE_UNPACKING : FUSE_ALL;
        } else if (option == 'h') {
            if (world_rank == 0) {
                usage(stdout);
            }
            return 0;
        } else {
            is_good &= option == 0;
        }
    }
    has_own_stream |= has_graphs;
    int n_sizes = argc - optind;
    is_good &= (n_sizes == 0 || n_sizes == 1 || n_sizes == 3) && !(has_blocking_copies && (!is_staged || has_own_stream)) &&
               !(has_datatypes && (is_staged || fusion != FUSE_NONE)) &&
               !(has_graphs && (has_datatypes || is_staged));
    for (int d = 0; is_good && n_sizes > 0 && d < 3; d++) {
        is_good &= (global_points[d] = number(argv[optind + (n_sizes == 3 ? d : 0)], 1)) > 0;
    }
    if (!is_good && world_rank == 0) {
        usage(stderr);
    }
    return is_good ? -1 : 2;
}

int main(int argc, char **argv)
{
    double start, elapsed, longest;
    int code;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    code = parse_options(argc, argv);
    if (code >= 0) {
        MPI_Finalize();
        return code;
    }
    choose_device();
    if (!make_grid()) {
        MPI_Finalize();
        return 2;
    }
    make_block();
    if (fusion == FUSE_ALL) {
        pack_all(); /* for the first iteration */
    }
    if (has_graphs) {
        make_graphs();
    }

    iterate(warmup_iterations);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    iterate(iterations);
    elapsed = MPI_Wtime() - start; /* each rank's own; nothing of the ranks' ends belongs to it */
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Reduce(&elapsed, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (world_rank == 0) {
        static const char *const fusions[] = {"", " fused A", " fused B", " fused C"};
        printf("ranks %d size %d x %d x %d%s mode %s%s%s, %s us_per_iteration %.2f\n", world_size, global_points[X],
               global_points[Y], global_points[Z], is_periodic ? " periodic" : "",
               is_staged ? "staged" : has_datatypes ? "datatypes" : has_graphs ? "graph" : "device", fusions[fusion],
               has_blocking_copies ? " by cudaMemcpy" : "", has_own_stream ? "streams" : "default stream",
               longest / iterations * 1e6);
    }
    code = does_check && !check(warmup_iterations + iterations) ? 1 : 0;
    if (has_graphs) {
        free_graphs();
    }
    free_block();
    MPI_Comm_free(&grid_comm);
    MPI_Finalize();
    return code;
}
