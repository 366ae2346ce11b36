/* rows.cuh - rows that are reduced: a row belongs to a team of threads, from one thread to a whole block, by its width.
 *
 * Kernels exist for K = FEW and K = HELD chunks of a row that a thread holds in registers, and for K = 0: wider rows are walked, that
 * is read again in each pass, by then from L2. Sums go in a fixed order: within the thread, over the lanes of a warp, over the
 * warps of the team. */
#ifndef CUDA_ROWS_CUH
#define CUDA_ROWS_CUH

#include "elements.cuh"

enum {
    HELD = 4,
    FEW = 2 /* where a thread keeps more than that of a chunk */,
    MOST_LANES = 1024,
    LEAST_BLOCK = 128
};

/* ---- the team of a row ---- */

struct plus {
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return a + b;
    }
};

struct larger {
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return fmaxf(a, b);
    }
};

/* Of the bits of ints of 0 and more. */
struct smaller_index {
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return __int_as_float(min(__float_as_int(a), __float_as_int(b)));
    }
};

/* One float of each warp of the block, for MOST_SUMS values, twice: two reductions in a row do not wait for each other. */
enum { MOST_SUMS = 4 };
struct team_memory {
    alignas(16) float value[2][MOST_SUMS][32];
    double wide[2][32];
};

/* The values of `count` lanes, a power of two, that lie side by side; mask: those lanes. */
template <int N, class JOIN>
__device__ __forceinline__ void over_lanes(float (&value)[N], const JOIN &join, int count,
                                           unsigned mask)
{
    if (count == 32) { /* a mask that is no constant costs as much as the reduction */
#pragma unroll
        for (int o = 16; o > 0; o /= 2)
#pragma unroll
            for (int i = 0; i < N; i++)
                value[i] = join(value[i], __shfl_xor_sync(0xffffffffu, value[i], o));
    } else {
        for (int o = count / 2; o > 0; o /= 2)
#pragma unroll
            for (int i = 0; i < N; i++)
                value[i] = join(value[i], __shfl_xor_sync(mask, value[i], o));
    }
}

/* Three or four values of a warp's lanes: each is added up in a part of the lanes alone. Returns value 0 in lanes 0 to 7, 1 in lanes 8 to
 * 15, and so on. */
template <int N, class JOIN>
__device__ __forceinline__ float over_quarters(const float (&value)[N], const JOIN &join)
{
    const bool upper = threadIdx.x & 16, odd = threadIdx.x & 8;
    const float last = N > 3 ? value[N - 1] : value[N - 2];
    float a = upper ? value[2] : value[0], b = upper ? last : value[1];
    a = join(a, __shfl_xor_sync(0xffffffffu, upper ? value[0] : value[2], 16));
    b = join(b, __shfl_xor_sync(0xffffffffu, upper ? value[1] : last, 16));
    float one = odd ? b : a;
    one = join(one, __shfl_xor_sync(0xffffffffu, odd ? a : b, 8));
#pragma unroll
    for (int o = 4; o > 0; o /= 2)
        one = join(one, __shfl_xor_sync(0xffffffffu, one, o));
    return one;
}

/* The lanes of this thread's group of `count`, a power of two, in its warp. */
__device__ __forceinline__ unsigned mask_of_lanes(int count)
{
    return count >= 32 ? 0xffffffffu : ((1u << count) - 1) << ((threadIdx.x & 31) & ~(count - 1));
}

struct team {
    int lanes, lane, index; /* a power of two; 0 to lanes - 1; which team of the block */
    int64_t first, step;    /* its rows */

    __device__ __forceinline__ team(team_memory *m, int threads_of_a_row)
        : lanes(threads_of_a_row), lane((int)threadIdx.x & (lanes - 1)),
          index((int)threadIdx.x / lanes), memory(m), phase(0)
    {
        const int teams = (int)blockDim.x / lanes;
        first = (int64_t)blockIdx.x * teams + index;
        step = (int64_t)gridDim.x * teams;
        mask = mask_of_lanes(lanes);
    }

    __device__ __forceinline__ void barrier() const
    {
        if (lanes == (int)blockDim.x)
            __syncthreads();
        else if (lanes > 32)
            asm volatile("bar.sync %0, %1;" ::"r"(index + 1), "r"(lanes) : "memory");
        else
            __syncwarp(mask);
    }

    /* Each value becomes that of the whole team, the same bits in all its threads: join(a, b) is join(b, a). */
    template <int N, class JOIN>
    __device__ __forceinline__ void reduce(float (&value)[N], const JOIN &join)
    {
        float one = 0;
        if (N > 2 && lanes > 32)
            one = over_quarters(value, join);
        else
            over_lanes(value, join, lanes < 32 ? lanes : 32, mask);
        if (lanes <= 32)
            return;
        const int warps = lanes / 32;
        if (N > 2 && lane % 8 == 0 && lane % 32 < 8 * N)
            memory->value[phase][lane % 32 / 8][index * warps + lane / 32] = one;
        if (N <= 2 && lane % 32 == 0)
#pragma unroll
            for (int i = 0; i < N; i++)
                memory->value[phase][i][index * warps + lane / 32] = value[i];
        barrier();
#pragma unroll
        for (int i = 0; i < N; i++)
            value[i] = over_warps(&memory->value[phase][i][index * warps], join, warps);
        phase ^= 1;
    }

    template <int N> __device__ __forceinline__ void sum(float (&value)[N])
    {
        reduce(value, plus());
    }

    __device__ __forceinline__ double sum(double value)
    {
        for (int o = (lanes < 32 ? lanes : 32) / 2; o > 0; o /= 2)
            value += __shfl_xor_sync(mask, value, o);
        if (lanes <= 32)
            return value;
        const int warps = lanes / 32;
        if (lane % 32 == 0)
            memory->wide[phase][index * warps + lane / 32] = value;
        barrier();
        value = 0;
        for (int w = 0; w < warps; w++)
            value += memory->wide[phase][index * warps + w];
        phase ^= 1;
        return value;
    }

  private:
    /* All threads of the team read all values: what one reads, a warp gets. */
    template <class JOIN>
    static __device__ __forceinline__ float over_warps(const float *of, const JOIN &join, int warps)
    {
        if (warps == 2)
            return join(of[0], of[1]);
        float all = 0;
#pragma unroll 1
        for (int w = 0; w < warps; w += 4) {
            const float4 four = *(const float4 *)(of + w);
            const float part = join(join(four.x, four.y), join(four.z, four.w));
            all = w ? join(all, part) : part;
        }
        return all;
    }

    team_memory *memory;
    int phase;
    unsigned mask;
};

/* ---- the chunks of a row ---- */

/* each(k, j): the thread's k-th chunk begins at element j of the row. */
template <class T, int K, class EACH>
__device__ __forceinline__ void for_chunks(const team &t, int n, const EACH &each)
{
    if constexpr (K > 0) {
#pragma unroll
        for (int k = 0; k < K; k++) {
            const int j = (t.lane + k * t.lanes) * V<T>;
            if (j < n)
                each(k, j);
        }
    } else {
        for (int j = t.lane * V<T>; j < n; j += t.lanes * V<T>)
            each(0, j);
    }
}

/* A row that the thread holds its chunks of; with K = 0 it reads them from memory each time. */
template <class T, int K> struct held_row {
    uint4 raw[K ? K : 1];

    __device__ __forceinline__ void take(const T *row, const team &t, int n, uint32_t pad = 0)
    {
        if constexpr (K > 0)
            for_chunks<T, K>(t, n, [&](int k, int j) { raw[k] = load(row + j, n - j, pad); });
    }

    /* Numbers made of the chunks are made anew from here on: they would not fit the registers. */
    __device__ __forceinline__ void renew()
    {
        if constexpr (K > 0)
#pragma unroll
            for (int k = 0; k < K; k++)
                asm volatile("" : "+r"(raw[k].x), "+r"(raw[k].y), "+r"(raw[k].z), "+r"(raw[k].w));
    }

    __device__ __forceinline__ uint4 chunk(const T *row, int k, int j, int n,
                                           uint32_t pad = 0) const
    {
        return K > 0 ? raw[k] : load(row + j, n - j, pad);
    }
};

/* The rows of a team, one after the other. A thread that holds FEW chunks reads those of the next row while it computes. SHARED: whole
 * chunks of the next row, of any K, go to shared memory meanwhile, K chunks a thread, and wait_for_copies() comes before step(). */
template <class T, int K, bool SHARED = false> struct row_stream {
    static constexpr bool STAGED = SHARED && K > 0 && element<T>::WHOLE, READ = !STAGED && K == FEW;
    held_row<T, K> now, next;

    /* pad: the bits of what lies beyond the end of a row. */
    __device__ __forceinline__ void begin(const row_span &x, const team &t, int64_t rows, int n,
                                          uint32_t pad = 0, uint4 *memory = NULL)
    {
        if (READ && t.first < rows)
            next.take(x.row<T>(t.first), t, n, pad);
        if (STAGED && t.first < rows)
            ask(x.row<T>(t.first), t, n, memory);
    }

    /* Row r is the one to compute. */
    __device__ __forceinline__ void step(const row_span &x, const team &t, int64_t r, int64_t rows,
                                         int n, uint32_t pad = 0, uint4 *memory = NULL)
    {
        if constexpr (STAGED) {
            for_chunks<T, K>(
                t, n, [&](int k, int) { now.raw[k] = memory[k * blockDim.x + threadIdx.x]; });
            if (r + t.step < rows)
                ask(x.row<T>(r + t.step), t, n, memory);
        } else if (!READ) {
            now.take(x.row<T>(r), t, n, pad);
        } else {
            now = next;
            if (r + t.step < rows)
                next.take(x.row<T>(r + t.step), t, n, pad);
        }
    }

  private:
    static __device__ __forceinline__ void ask(const T *row, const team &t, int n, uint4 *memory)
    {
        for_chunks<T, K>(t, n, [&](int k, int j) {
            copy_ahead(memory + k * blockDim.x + threadIdx.x, row + j);
        });
    }
};

/* A vector, `offset` added to it, or `missing` where it is absent. A thread that holds FEW chunks keeps its part for all rows. */
template <class T, int K> struct held_vector {
    float kept[K == FEW ? K : 1][V<T>];

    __device__ __forceinline__ void begin(const vector_span &v, const team &t, int n, float missing,
                                          float offset)
    {
        if constexpr (K == FEW)
            for_chunks<T, K>(t, n, [&](int k, int j) { read(v, j, n, missing, offset, kept[k]); });
    }

    __device__ __forceinline__ void chunk(const vector_span &v, int k, int j, int n, float missing,
                                          float offset, float (&x)[V<T>]) const
    {
        if constexpr (K == FEW) {
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                x[i] = kept[k][i];
        } else {
            read(v, j, n, missing, offset, x);
        }
    }

  private:
    static __device__ __forceinline__ void read(const vector_span &v, int j, int n, float missing,
                                                float offset, float (&x)[V<T>])
    {
        if (v.data)
            load_vector<T>(v, j, n - j, x);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            x[i] = v.data ? x[i] + offset : missing;
    }
};

/* ---- launching: kernel<FEW>, kernel<HELD> or kernel<0> by the width ---- */

enum { STREAM_THREADS = 512 /* of a block whose teams go from row to row */ };

/* Blocks of a kernel that a multiprocessor holds at once. *known keeps the answer, 0 before: the cards of a process are taken
 * to be of one kind. */
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

struct row_shape {
    int lanes, threads; /* of a row, of a block */
    int held;           /* 0: the row is walked */
    int64_t blocks;     /* that hold all rows at once */
};

/* chunks: of a row; held: how many of them a thread can hold; most: threads of a block. */
static inline row_shape shape_rows(int64_t rows, int64_t chunks, int held, int most)
{
    row_shape s;
    const int narrow = power_of_two(min_of(chunks, 8)); /* 128 bytes side by side */
    s.lanes = (int)min_of(most, power_of_two(min_of(ceil_div(chunks, held), most)));
    s.lanes = s.lanes < narrow ? narrow : s.lanes;
    s.held = chunks <= (int64_t)s.lanes * held;
    s.threads = s.lanes < LEAST_BLOCK ? LEAST_BLOCK : s.lanes;
    s.blocks = min_of(INT32_MAX, ceil_div(rows, s.threads / s.lanes));
    return s;
}

/* A forward of rows: kernel few (NULL: none), held or walked, with its arguments. */
template <class ARGS>
static void launch_forward(const cuda_call &call, ARGS a, int64_t chunks, int *known,
                           void (*few)(ARGS), void (*held)(ARGS), void (*walked)(ARGS))
{
    const row_shape narrow = shape_rows(a.rows, chunks, FEW, STREAM_THREADS),
                    wide = shape_rows(a.rows, chunks, HELD, MOST_LANES);
    if (few && narrow.held) {
        const int64_t most = (int64_t)call.processors * blocks_at_once(known, few, 0);
        a.lanes = narrow.lanes;
        few<<<(unsigned)min_of(most, ceil_div(a.rows, STREAM_THREADS / a.lanes)), STREAM_THREADS, 0,
              call.stream>>>(a);
    } else {
        a.lanes = wide.lanes;
        (wide.held ? held : walked)<<<(unsigned)wide.blocks, wide.threads, 0, call.stream>>>(a);
    }
}

enum { USUAL_SHARED = 48 << 10 /* bytes that a block may have without being asked for */ };

/* A kernel whose teams of `lanes` go from row to row, and in which a thread asks for so many chunks ahead. Returns false if there is not as
 * much shared memory. */
template <class ARGS>
static bool launch_ahead(const cuda_call &call, const ARGS &a, int64_t rows, int lanes, int chunks,
                         int *known, void (*kernel)(ARGS))
{
    const int threads = lanes > STREAM_THREADS ? lanes : STREAM_THREADS;
    const size_t shared = (size_t)threads * chunks * sizeof(uint4);
    if (shared > USUAL_SHARED &&
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared) !=
            cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    const int64_t most = (int64_t)call.processors * blocks_at_once(known, kernel, shared, threads);
    const int64_t blocks = min_of(most, ceil_div(rows, threads / lanes));
    kernel<<<(unsigned)blocks, threads, shared, call.stream>>>(a);
    return true;
}

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

#endif
