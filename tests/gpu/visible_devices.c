/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that sets CUDA_VISIBLE_DEVICES before its first call of CUDA sees these GPUs only, numbered from 0, also if the
 * process has several ranks and a list of its own (first argument): numbers, UUIDs and buses, the current context, peers, the
 * GPU of memory, pools and mapped memory, the table from which CUDA's runtime has contexts; also if a thread of the rank is the first (third argument). A list ends before the first entry that is not valid. Messages go between the
 * ranks' GPUs, and MPI's memory is on the rank's. Needs the fake driver with four GPUs.
 */
#include <pthread.h>

#include "device.h"
#include "fakecuda.h"

/* The GPU of the machine with this number of the rank, by its bus. */
static int machine_device(int number)
{
    char bus[32];
    CUdevice device, again = -1;

    GTEST_CU(cuDeviceGet(&device, number));
    MTEST_CHECK(device == number, "the handle of GPU %d is %d", number, device);
    GTEST_CU(cuDeviceGetPCIBusId(bus, sizeof bus, device));
    GTEST_CU(cuDeviceGetByPCIBusId(&again, bus));
    MTEST_CHECK(again == device, "GPU %d is %d by its bus", number, again);
    return (int)strtol(bus + 5, NULL, 16) - 1;
}

static int device_of(CUdeviceptr memory)
{
    int device = -7, again = -8;
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    void *answer = &again;

    GTEST_CU(cuPointerGetAttribute(&device, wanted, memory));
    GTEST_CU(cuPointerGetAttributes(1, &wanted, &answer, memory));
    MTEST_CHECK(device == again, "memory of GPU %d, or %d", device, again);
    return device;
}

/* The rank's list and the GPUs of the machine that it shows; "": none, "twice": none, since one comes twice. */
static const struct {
    const char *list, *shown;
} lists[] = {{"2", "2"},
             {"1,3", "13"},
             {" 3,0 ,9,1", "30"},
             {"3,-1,2", "3"},
             {"", ""},
             {"1,1", "twice"},
             {"GPU-", ""},
             {"GPU-fafafafa-fafa-fafa-fafa-fafafafafa02,GPU-fafafafa-fafa-fafa-fafa-fafafafafa01", "21"},
             {"GPU-fa", ""},
             {"none", ""},
             {"3,2,1,0,2", "twice"}};

static void check_devices(const char *shown)
{
    int n = -1, can = -1;
    CUdevice device;
    CUcontext context;
    size_t n_bytes;

    GTEST_CU(cuDeviceGetCount(&n));
    MTEST_CHECK(n == (int)strlen(shown), "%d GPUs instead of %zu", n, strlen(shown));
    for (int i = 0; i < n; i++)
        MTEST_CHECK(machine_device(i) == shown[i] - '0', "GPU %d is %d of the machine", i, machine_device(i));
    MTEST_CHECK(cuDeviceGet(&device, n) == CUDA_ERROR_INVALID_DEVICE, "there is a GPU %d", n);
    MTEST_CHECK(cuDeviceTotalMem(&n_bytes, n) == CUDA_ERROR_INVALID_DEVICE, "GPU %d has memory", n);
    MTEST_CHECK(cuDevicePrimaryCtxRetain(&context, n) == CUDA_ERROR_INVALID_DEVICE, "GPU %d has a context",
                n);
    if (n > 1) {
        GTEST_CU(cuDeviceCanAccessPeer(&can, 0, 1));
        MTEST_CHECK(can == 1, "peers are %d", can);
    }
    context = NULL;
    GTEST_CU(cuCtxGetCurrent(&context)); /* NULL is the first GPU for CUDA's runtime */
    device = 0;
    if (context)
        GTEST_CU(cuCtxGetDevice(&device));
    MTEST_CHECK(device == 0, "the rank begins with its GPU %d", device);
}

/* The second function of the runtime's table gives primary contexts. */
static void check_table(int n, CUcontext of_last)
{
    static const CUuuid id = {{0x6b, (char)0xd5, (char)0xfb, 0x6c, 0x5b, (char)0xf4, (char)0xe7, 0x4a,
                               (char)0x89, (char)0x87, (char)0xd9, 0x39, 0x12, (char)0xfd, (char)0x9d,
                               (char)0xf9}};
    CUresult (*const *table)(CUcontext *, CUdevice);
    CUcontext context = NULL;

    GTEST_CU(cuGetExportTable((const void **)&table, &id));
    GTEST_CU(table[2](&context, n - 1));
    MTEST_CHECK(context == of_last, "the table has another context of GPU %d", n - 1);
    MTEST_CHECK(table[2](&context, n) == CUDA_ERROR_INVALID_DEVICE, "the table has a GPU %d", n);
}

/* Memory of each kind on the rank's last GPU. */
static void check_memory(int last)
{
    CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = last};
    CUmemPoolProps pool_wanted = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = place};
    CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = place};
    CUmemAccessDesc access = {.location = place, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr memory;
    CUmemoryPool pool;
    CUcontext context;
    CUdevice device = -1;
    size_t step = 0;

    GTEST_CU(cuDevicePrimaryCtxRetain(&context, last));
    GTEST_CU(cuCtxSetCurrent(context));
    check_table(last + 1, context);
    GTEST_CU(cuCtxGetDevice(&device));
    MTEST_CHECK(device == last, "the current GPU is %d instead of %d", device, last);
    GTEST_CU(cuMemAlloc(&memory, 4096));
    MTEST_CHECK(device_of(memory) == last, "cuMemAlloc: GPU %d", device_of(memory));
    GTEST_CU(cuMemFree(memory));
    GTEST_CU(cuMemPoolCreate(&pool, &pool_wanted));
    GTEST_CU(cuMemAllocFromPoolAsync(&memory, 4096, pool, NULL));
    MTEST_CHECK(device_of(memory) == last, "a pool: GPU %d", device_of(memory));
    GTEST_CU(cuMemFreeAsync(memory, NULL));
    GTEST_CU(cuMemPoolDestroy(pool));
    GTEST_CU(cuMemGetAllocationGranularity(&step, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    GTEST_CU(cuMemCreate(&handle, step, &wanted, 0));
    GTEST_CU(cuMemAddressReserve(&memory, step, 0, 0, 0));
    GTEST_CU(cuMemMap(memory, step, 0, handle, 0));
    GTEST_CU(cuMemSetAccess(memory, step, &access, 1));
    MTEST_CHECK(device_of(memory) == last, "mapped memory: GPU %d", device_of(memory));
    GTEST_CU(cuMemUnmap(memory, step));
    GTEST_CU(cuMemRelease(handle));
    GTEST_CU(cuMemAddressFree(memory, step));
    GTEST_CU(cuDevicePrimaryCtxRelease(last));
}

/* Memory of MPI is on the rank's first GPU, and so is its message. */
static void check_mpi(bool has_gpu)
{
    int next = (mtest_rank + 1) % mtest_size, before = (mtest_rank + mtest_size - 1) % mtest_size;
    CUcontext context;
    MPI_Info info;
    int *memory = NULL, got = -1;

    MTEST_OK(MPI_Info_create(&info));
    if (has_gpu) {
        MTEST_OK(MPI_Info_set(info, "mpi_memory_alloc_kinds", "cuda:device"));
        GTEST_CU(cuDevicePrimaryCtxRetain(&context, 0));
        GTEST_CU(cuCtxSetCurrent(NULL));
    }
    MTEST_OK(MPI_Alloc_mem(2 * sizeof *memory, info, &memory));
    MTEST_OK(MPI_Info_free(&info));
    if (has_gpu) {
        MTEST_CHECK(device_of((CUdeviceptr)memory) == 0, "MPI_Alloc_mem: GPU %d",
                    device_of((CUdeviceptr)memory));
        GTEST_CU(cuCtxSetCurrent(context));
        GTEST_CU(cuMemcpyHtoD((CUdeviceptr)memory, &mtest_rank, sizeof mtest_rank));
    } else {
        memory[0] = mtest_rank;
    }
    MTEST_OK(MPI_Sendrecv(memory, 1, MPI_INT, next, 0, has_gpu ? memory + 1 : &got, 1, MPI_INT, before, 0,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (has_gpu)
        GTEST_CU(cuMemcpyDtoH(&got, (CUdeviceptr)(memory + 1), sizeof got));
    MTEST_CHECK(got == before, "received %d", got);
    MTEST_OK(MPI_Free_mem(memory));
}

/* A thread is the first of the rank to use CUDA. */
static void *begin_there(void *shown)
{
    (void)cuInit(0);
    check_devices(shown);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *list, *shown;
    pthread_t thread;
    char visible[8] = "";
    size_t mine;
    bool is_twice;

    mtest_init(&argc, &argv, 1);
    if (!fakecuda_is_here())
        mtest_skip("needs the fake driver's four GPUs");
    mine = (size_t)(mtest_rank + (argc > 2 ? atoi(argv[2]) : 0)) % (sizeof lists / sizeof *lists);
    list = lists[mine].list;
    shown = lists[mine].shown;
    setenv("CUDA_VISIBLE_DEVICES", list, 1);
    is_twice = strcmp(shown, "twice") == 0;
    for (int i = 0; !is_twice && shown[i] && (argc < 2 || strchr(argv[1], shown[i])); i++)
        visible[i] = shown[i];
    if (argc > 3) {
        MTEST_CHECK(pthread_create(&thread, NULL, begin_there, visible) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    MTEST_CHECK(cuInit(0) == (visible[0] ? CUDA_SUCCESS
                              : is_twice ? CUDA_ERROR_INVALID_DEVICE
                                         : CUDA_ERROR_NO_DEVICE),
                "cuInit with %s", list);
    check_devices(visible);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1); /* too late */
    check_devices(visible);
    if (visible[0])
        check_memory((int)strlen(visible) - 1);
    check_mpi(visible[0]);
    return mtest_end();
}
