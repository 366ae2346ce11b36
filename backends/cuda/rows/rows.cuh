/* rows.cuh - rows that are reduced: a row belongs to a team of threads, from one thread to a
 * cluster of blocks, by its width. Here is how kernels on rows are launched; team.cuh and
 * row_chunks.cuh have what they are made of. */
#ifndef CUDA_ROWS_CUH
#define CUDA_ROWS_CUH

#include "row_stream.cuh"

enum { USUAL_SHARED = 48 << 10 }; /* bytes that a block may have without being asked for */

/* ---- threads and blocks of a row ---- */

struct row_shape {
    int lanes, threads; /* of a row, of a block */
    int held;           /* 0: the row is walked */
    int ranks;          /* blocks of a row: a cluster, where there are several */
    int64_t blocks;     /* that hold all rows at once */
};

/* What a kernel's team is told of a row's threads. */
static inline int lanes_of(const cuda_call &call, int lanes)
{
    return call.alike ? lanes | ROWS_ALIKE : lanes;
}

/* chunks: of a row; held: how many of them a thread can hold; most: threads of a block; ranks:
 * blocks that a row may have; least: threads of a block, at least. */
static inline row_shape shape_rows(int64_t rows, int64_t chunks, int held, int most, int ranks = 1,
                                   int least = LEAST_BLOCK)
{
    row_shape s;
    const int narrow = power_of_two(min_of(chunks, 8)); /* 128 bytes side by side */
    const int64_t all = (int64_t)most * ranks;
    s.lanes = power_of_two(min_of(ceil_div(chunks, held), all));
    s.lanes = s.lanes < narrow ? narrow : s.lanes;
    s.held = chunks <= (int64_t)s.lanes * held;
    if (!s.held)
        s.lanes = most;
    s.ranks = s.lanes > most ? s.lanes / most : 1;
    s.threads = s.lanes > most ? most : s.lanes < least ? least : s.lanes;
    s.blocks = min_of(1 << 30, s.ranks > 1 ? rows * s.ranks : ceil_div(rows, s.threads / s.lanes));
    return s;
}

/* Chunks of a row, wherever it begins. */
template <class T> static int64_t chunks_of_row(int64_t n)
{
    return ceil_div(n + (element<T>::WHOLE ? 0 : V<T> - 1), V<T>);
}

/* 1 if threads with SOME chunks of whole<T> are better than those with FEW: fewer have a row, so
 * that fewer are idle. */
template <class T> static bool suits_some(int64_t chunks)
{
    return element<T>::WHOLE && chunks > 32 * FEW && chunks <= STREAM_THREADS * SOME &&
           power_of_two(ceil_div(chunks, SOME)) < power_of_two(ceil_div(chunks, FEW));
}

/* Blocks that a row may have on this card. */
static inline int most_ranks(const cuda_call &call)
{
    return call.capability >= 90 ? MOST_RANKS : 1;
}

/* ---- one kernel ---- */

/* Blocks of a kernel that a multiprocessor holds at once. *known keeps the answer, 0 before: the
 * cards of a process are taken to be of one kind. */
template <class KERNEL>
static int blocks_at_once(int *known, KERNEL kernel, size_t shared, int threads = STREAM_THREADS)
{
    int blocks = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (blocks > 0)
        return blocks;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared);
    blocks = blocks < 1 ? 1 : blocks;
    __atomic_store_n(known, blocks, __ATOMIC_RELAXED);
    return blocks;
}

/* What each card has room for, by the logarithm of the blocks of a row: so many blocks at once; 0:
 * not known yet, -1: not a single row. All launches of a kernel with as many ranks have blocks of
 * one size. A kernel has to be given its shared memory on every card. */
struct kernel_room {
    int blocks[MOST_CARDS][5];
};

static inline cudaLaunchConfig_t config_of(const cuda_call &call, const row_shape &s, size_t shared,
                                           cudaLaunchAttribute *cluster)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)s.ranks);
    config.blockDim = dim3((unsigned)s.threads);
    config.dynamicSmemBytes = shared;
    config.stream = call.stream;
    cluster->id = cudaLaunchAttributeClusterDimension;
    cluster->val.clusterDim.x = (unsigned)s.ranks;
    cluster->val.clusterDim.y = cluster->val.clusterDim.z = 1;
    config.attrs = cluster;
    config.numAttrs = s.ranks > 1;
    return config;
}

template <class... ARGS>
static int ask_for_room(const cuda_call &call, const row_shape &s, size_t shared,
                        void (*kernel)(ARGS...))
{
    cudaLaunchAttribute cluster;
    const cudaLaunchConfig_t config = config_of(call, s, shared, &cluster);
    cudaFuncAttributes of = {};
    int teams = 0;
    cudaError_t error = cudaFuncGetAttributes(&of, kernel);
    if (error == cudaSuccess && shared > (size_t)of.maxDynamicSharedSizeBytes)
        error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (error == cudaSuccess)
        error = s.ranks > 1 ? cudaOccupancyMaxActiveClusters(&teams, kernel, &config)
                            : cudaOccupancyMaxActiveBlocksPerMultiprocessor(&teams, kernel,
                                                                            s.threads, shared);
    if (error != cudaSuccess)
        cudaGetLastError();
    if (error != cudaSuccess || teams < 1)
        return -1;
    return s.ranks > 1 ? teams * s.ranks : teams * call.processors;
}

template <class... ARGS>
static int room_for(const cuda_call &call, const row_shape &s, size_t shared, kernel_room *room,
                    void (*kernel)(ARGS...))
{
    int at = 0;
    while (1 << at < s.ranks)
        at++;
    int *known = &room->blocks[call.card][at];
    int blocks = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (blocks == 0) {
        blocks = ask_for_room(call, s, shared, kernel);
        __atomic_store_n(known, blocks, __ATOMIC_RELAXED);
    }
    return blocks;
}

/* Blocks whose teams go from row to row, if there are more rows than the card has room for; each
 * team then has rows that begin alike. */
template <class T> static int64_t blocks_of(const row_shape &s, int64_t room)
{
    const int64_t teams = s.threads * s.ranks / s.lanes; /* of as many blocks as a row has */
    if (s.blocks <= room)
        return s.blocks;
    room /= s.ranks;
    while (!element<T>::WHOLE && room > 1 && room * teams % MOST_STARTS)
        room--;
    return room * s.ranks;
}

template <class... ARGS>
static void launch_rows(const cuda_call &call, const row_shape &s, int64_t blocks, size_t shared,
                        void (*kernel)(ARGS...), const ARGS &...args)
{
    cudaLaunchAttribute cluster;
    cudaLaunchConfig_t config = config_of(call, s, shared, &cluster);
    config.gridDim = dim3((unsigned)blocks);
    cudaLaunchKernelEx(&config, kernel, args...);
}

/* The shared memory of a block where each thread has so many chunks. */
static inline size_t bytes_of_chunks(const row_shape &s, int chunks)
{
    return (size_t)s.threads * (size_t)chunks * sizeof(uint4);
}

/* ---- a forward of rows ---- */

/* A kernel, and how many chunks a thread has in shared memory. */
template <class ARGS> struct row_kernel {
    void (*kernel)(ARGS);
    int chunks;
};

/* The kernels of a family for one type. few, some, narrow: the kernel may be NULL. narrow: of rows
 * that few threads hold, at most NARROW_THREADS of a block. */
template <class ARGS> struct row_kernels {
    row_kernel<ARGS> few, held;
    void (*walked)(ARGS);
    row_kernel<ARGS> some = {}, narrow = {};
};

/* again: teams go from row to row. Returns false if the card has no room for such a row. */
template <class T, class ARGS>
static bool launch_held(const cuda_call &call, ARGS &a, const row_shape &s,
                        const row_kernel<ARGS> &k, bool again, kernel_room *known)
{
    const size_t shared = bytes_of_chunks(s, k.chunks);
    const int room = s.held && k.kernel ? room_for(call, s, shared, known, k.kernel) : -1;
    if (room < 0)
        return false;
    a.lanes = lanes_of(call, s.lanes);
    launch_rows(call, s, again ? blocks_of<T>(s, room) : s.blocks, shared, k.kernel, a);
    return true;
}

enum {
    WAYS = 7, /* to launch a forward whose rows are held */
    NARROW_THREADS = 256
};

/* known: of this set of kernels. T: of the elements. A block of many threads comes before a
 * cluster, whose barriers take longer. */
template <class T, class ARGS>
static void launch_forward(const cuda_call &call, ARGS a, const row_kernels<ARGS> &kernels,
                           kernel_room (&known)[WAYS])
{
    const int64_t chunks = chunks_of_row<T>(a.n);
    const int ranks = most_ranks(call),
              least = kernels.held.chunks ? (int)STREAM_THREADS : (int)LEAST_BLOCK;
    const row_kernel<ARGS> some = suits_some<T>(chunks) ? kernels.some : row_kernel<ARGS>{};
    const struct {
        const row_kernel<ARGS> &k;
        int held, most, ranks, least;
    } ways[WAYS] = {{some, SOME, STREAM_THREADS, 1, STREAM_THREADS},
                    {kernels.few, FEW, STREAM_THREADS, 1, STREAM_THREADS},
                    {kernels.narrow, HELD, NARROW_THREADS, 1, least},
                    {kernels.held, HELD, STREAM_THREADS, 1, least},
                    {kernels.held, HELD, MOST_LANES, 1, least},
                    {kernels.few, FEW, STREAM_THREADS, ranks, STREAM_THREADS},
                    {kernels.held, HELD, STREAM_THREADS, ranks, least}};
    for (int i = 0; i < WAYS; i++) {
        const auto &way = ways[i];
        if (launch_held<T>(call, a,
                           shape_rows(a.rows, chunks, way.held, way.most, way.ranks, way.least),
                           way.k, way.held != HELD || way.k.chunks > 0, &known[i]))
            return;
    }
    const row_shape s = shape_rows(a.rows, chunks, HELD, MOST_LANES);
    a.lanes = lanes_of(call, s.lanes);
    launch_rows(call, s, s.blocks, 0, kernels.walked, a);
}

/* ---- calls ---- */

/* Positions within a row are ints. */
static inline tg_status check_width(const char *op, int64_t n)
{
    return n <= INT32_MAX / 2
               ? TG_OK
               : cuda_host->fail(TG_EUNSUPPORTED, "%s: rows of %lld elements, expected at most %d",
                                 op, (long long)n, INT32_MAX / 2);
}

/* cuda_begin() of a call on rows of x, if these are not too wide. */
static inline tg_status begin_rows(cuda_call *call, tg_ctx *ctx, const char *op, const tg_tensor *x)
{
    const tg_status status = check_width(op, width_of(x));
    return status == TG_OK ? cuda_begin(call, ctx, op, x) : status;
}

/* A call that launches what run(call) does, and nothing where x is empty. */
template <class F>
static tg_status on_rows(tg_ctx *ctx, const char *op, const tg_tensor *x, const F &run)
{
    cuda_call call;
    if (rows_of(x) == 0 || width_of(x) == 0)
        return check_width(op, width_of(x));
    const tg_status status = begin_rows(&call, ctx, op, x);
    if (status != TG_OK)
        return status;
    run(call);
    return cuda_end(&call, TG_OK);
}

/* A forward on rows of the first of the tensors, which decide on the elements' type: `a` by
 * kernels_of() an element. */
template <int N, class ARGS, class KERNELS>
static tg_status run_forward(tg_ctx *ctx, const char *op, const tg_tensor *const (&tensors)[N],
                             const ARGS &a, const KERNELS &kernels_of)
{
    return on_rows(ctx, op, tensors[0], [&](const cuda_call &call) {
        by_layout(tensors, [&](auto e) {
            static kernel_room known[WAYS];
            launch_forward<decltype(e)>(call, a, kernels_of(e), known);
        });
    });
}

#endif
