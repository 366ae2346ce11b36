/* mhc_coeffs_tensor.cuh - products of x with phi and with itself on tensor cores, where x and phi
 * are of one type of 16 bits: the columns to come are on their way to shared memory while some are
 * multiplied. */
#ifndef CUDA_MHC_COEFFS_TENSOR_CUH
#define CUDA_MHC_COEFFS_TENSOR_CUH

#include "mhc_coeffs_products.cuh"
#include "rows/fragments.cuh"

/* A warp has TOKENS tokens, in fragments of 16, and takes STEP columns of x at a time, in parts
 * of PART; of phi it takes 8 columns a tile. 256 bytes of each token at a time are faster
 * than 128 in twice as many stages (docs/cuda.md). */
enum {
    TOKENS = 32,
    WARPS = 4,
    PART = 32,
    PARTS_OF_STEP = 4,
    STEP = PARTS_OF_STEP * PART,
    STEP_CHUNKS = STEP / 8,
    TENSOR_THREADS = WARPS * 32,
    TENSOR_STAGES = 2,
    MOST_TILES = 4
};

struct tensor_args {
    forward_args f;
    uint4 *packed; /* phi: [parts, tiles, 32 lanes], of a lane the 8 elements that it multiplies;
                      NULL: phi is made of whole chunks, and taken as it lies */
    int tiles;     /* of all columns of phi, a multiple of those that a warp takes */
};

/* Lane l has elements 8 (l % 4)... of a part's columns, of column l / 4 of a tile. So has it of x,
 * of tokens l / 4 and l / 4 + 8: which of the 16 columns of an instruction these are does not
 * matter to a sum over all of them. */
template <class T> __global__ void pack_phi_kernel(const __grid_constant__ tensor_args a)
{
    const coeffs_args &c = a.f.c;
    const int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x,
                  width = (int64_t)c.streams * c.n,
                  parts = (width + STEP - 1) / STEP * PARTS_OF_STEP;
    const int lane = (int)(e % 32), column = (int)(e / 32 % a.tiles) * 8 + lane / 4;
    const int64_t row = e / 32 / a.tiles * PART + lane % 4 * 8;
    uint32_t bits[4] = {};
    let_the_next_come();
    if (e >= parts * a.tiles * 32)
        return;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (row < width) /* whole chunks of x are */
            bits[i] = narrow_pair<T>(phi_at<T>(c, row + 2 * i, column),
                                     phi_at<T>(c, row + 2 * i + 1, column));
    a.packed[e] = make_uint4(bits[0], bits[1], bits[2], bits[3]);
}

template <class T> __device__ __forceinline__ static float squares_of(uint4 raw)
{
    float x[V<T>], sum = 0;
    widen<T>(raw, x);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        sum += x[i] * x[i];
    return sum;
}

/* Rows of phi as they lie are apart by an odd number of chunks, and in the order in which a warp
 * takes them: it reads eight from all banks at once. */
template <int TILES, bool AS_IT_LIES> struct tensor_stage {
    static constexpr int PITCH = AS_IT_LIES ? TILES | 1 : TILES;
    uint4 x[WARPS * TOKENS][STEP_CHUNKS];
    uint4 phi[PARTS_OF_STEP][32 * PITCH];

    /* Where row k of a part is: its lanes' 8 elements each are four pairs of rows. */
    static __device__ __forceinline__ int place_of_row(int k)
    {
        return k % 8 / 2 * 8 + k / 8 * 2 + k % 2;
    }
};

/* What the threads of a block ask for, step by step: of x eight threads a token's chunks. */
template <class T, int TILES, bool AS_IT_LIES> struct tensor_reader {
    typedef tensor_stage<TILES, AS_IT_LIES> stage;
    const tensor_args &a;
    const char *x; /* of the thread's first token, its stream 0 */
    int64_t tokens;
    int column, end, stream, offset; /* of the thread's chunk of the next step */
    int64_t part;

    __device__ __forceinline__ tensor_reader(const tensor_args &args, int begin, int last)
        : a(args), column(begin + (int)threadIdx.x % STEP_CHUNKS * 8), end(last),
          stream(column / args.f.c.n), offset(column % args.f.c.n), part(begin / PART)
    {
        const int64_t first = (int64_t)blockIdx.x * WARPS * TOKENS + (int)threadIdx.x / STEP_CHUNKS;
        tokens = a.f.c.tokens - first;
        x = (const char *)a.f.c.x.row<T>(first * a.f.c.streams);
    }

    __device__ __forceinline__ void ask_x(stage &to)
    {
        const int chunk = (int)threadIdx.x % STEP_CHUNKS;
        const int64_t apart = a.f.c.streams * a.f.c.x.stride,
                      at = stream * a.f.c.x.stride + offset * (int64_t)sizeof(T);
#pragma unroll
        for (int i = 0; i < WARPS * TOKENS; i += TENSOR_THREADS / STEP_CHUNKS) {
            const int token = i + (int)threadIdx.x / STEP_CHUNKS;
            const bool there = column < end && i < tokens;
            copy_ahead(&to.x[token][chunk ^ mix_of(token)],
                       there ? x + i * apart + at : a.f.c.x.data, there);
        }
        column += STEP;
        offset += STEP;
        while (offset >= a.f.c.n) {
            offset -= a.f.c.n;
            stream++;
        }
    }
    __device__ __forceinline__ void ask_phi(stage &to)
    {
        const int columns = a.f.c.columns;
        const int64_t left = (int64_t)a.f.c.streams * a.f.c.n - part * PART; /* rows of phi */
        for (int e = (int)threadIdx.x; e < PARTS_OF_STEP * TILES * 32; e += TENSOR_THREADS) {
            const int of = e / (TILES * 32), rest = e % (TILES * 32);
            if constexpr (AS_IT_LIES) {
                const int row = e / TILES, column = ((int)blockIdx.y * TILES + e % TILES) * 8;
                const bool there = row < left && column < columns;
                copy_ahead(&to.phi[of][stage::place_of_row(row % 32) * stage::PITCH + e % TILES],
                           there ? (const T *)a.f.c.phi + (part * PART + row) * columns + column
                                 : (const T *)a.f.c.phi,
                           there);
            } else {
                copy_ahead(&to.phi[of][rest],
                           a.packed + ((part + of) * a.tiles + blockIdx.y * TILES) * 32 + rest);
            }
        }
        part += PARTS_OF_STEP;
    }
};

/* The sums of a warp. */
template <class T, int TILES, bool AS_IT_LIES> struct tensor_sums {
    typedef tensor_stage<TILES, AS_IT_LIES> stage;
    float product[2][TILES][4], squares[2][2];

    __device__ __forceinline__ void add(const stage &s)
    {
        const int lane = (int)threadIdx.x % 32;
#pragma unroll
        for (int part = 0; part < PARTS_OF_STEP; part++) {
            uint4 x[2][2];
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int token = (int)threadIdx.x / 32 * TOKENS + m * 16 + h * 8 + lane / 4;
                    x[m][h] = s.x[token][(part * 4 + lane % 4) ^ mix_of(token)];
                    squares[m][h] += squares_of<T>(x[m][h]);
                }
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                const uint4 b = phi_of(s, part, t);
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    multiply_16<T>(product[m][t], x[m][0].x, x[m][1].x, x[m][0].y, x[m][1].y, b.x,
                                   b.y);
                    multiply_16<T>(product[m][t], x[m][0].z, x[m][1].z, x[m][0].w, x[m][1].w, b.z,
                                   b.w);
                }
            }
        }
    }

    /* What the lane multiplies of a tile. */
    static __device__ __forceinline__ uint4 phi_of(const stage &s, int part, int tile)
    {
        const int lane = (int)threadIdx.x % 32;
        if constexpr (AS_IT_LIES) {
            uint32_t b[4];
            load_transposed(b, shared_address(&s.phi[part][lane * stage::PITCH + tile]));
            return make_uint4(b[0], b[1], b[2], b[3]);
        } else {
            return s.phi[part][tile * 32 + lane];
        }
    }

    __device__ __forceinline__ void put(const forward_args &a)
    {
        const int lane = (int)threadIdx.x % 32, columns = a.c.columns;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int64_t token = ((int64_t)blockIdx.x * WARPS + threadIdx.x / 32) * TOKENS +
                                      m * 16 + h * 8 + lane / 4;
                float *const to = a.parts + (blockIdx.z * a.c.tokens + token) * (columns + 1);
                float square = squares[m][h];
                square += __shfl_xor_sync(0xffffffffu, square, 1);
                square += __shfl_xor_sync(0xffffffffu, square, 2);
                if (token >= a.c.tokens)
                    continue;
                if (blockIdx.y == 0 && lane % 4 == 0)
                    to[columns] = square;
#pragma unroll
                for (int t = 0; t < TILES; t++)
#pragma unroll
                    for (int w = 0; w < 2; w++) {
                        const int j = ((int)blockIdx.y * TILES + t) * 8 + lane % 4 * 2 + w;
                        if (j < columns)
                            to[j] = product[m][t][2 * h + w];
                    }
            }
    }
};

/* Tokens blockIdx.x WARPS TOKENS..., TILES tiles of phi from blockIdx.y TILES on, split
 * blockIdx.z. The columns of a stage are asked for when all threads have done with those that were
 * in its place. */
template <class T, int TILES, bool AS_IT_LIES>
__global__ void __launch_bounds__(TENSOR_THREADS, 2)
    tensor_products_kernel(const __grid_constant__ tensor_args a)
{
    extern __shared__ uint4 memory[];
    typedef tensor_stage<TILES, AS_IT_LIES> stage;
    stage *const stages = (stage *)memory;
    const coeffs_args &c = a.f.c;
    const int begin = (int)blockIdx.z * a.f.slice, end = min(begin + a.f.slice, c.streams * c.n),
              steps = (end - begin + STEP - 1) / STEP;
    tensor_reader<T, TILES, AS_IT_LIES> reader(a, begin, end);
    tensor_sums<T, TILES, AS_IT_LIES> sums = {};
    let_the_next_come();
    for (int s = 0; s < TENSOR_STAGES - 1; s++)
        if (s < steps)
            reader.ask_x(stages[s]);
    if (!AS_IT_LIES)
        wait_for_the_kernel_before();
    for (int s = 0; s < TENSOR_STAGES - 1; s++) {
        if (s < steps)
            reader.ask_phi(stages[s]);
        end_batch();
    }
    for (int step = 0, slot = 0; step < steps; step++) {
        const int free = slot == 0 ? TENSOR_STAGES - 1 : slot - 1;
        wait_for_batches<TENSOR_STAGES - 2>();
        __syncthreads();
        if (step + TENSOR_STAGES - 1 < steps) {
            reader.ask_x(stages[free]);
            reader.ask_phi(stages[free]);
        }
        end_batch();
        sums.add(stages[slot]);
        slot = slot + 1 == TENSOR_STAGES ? 0 : slot + 1;
    }
    sums.put(a.f);
}

/* ---- launching ---- */

static bool suits_tensor_cores(const cuda_call &call, const tg_mhc_coeffs_forward_args *args,
                               const coeffs_args &c)
{
    const tg_tensor *const tensors[] = {args->x};
    return call.capability >= 80 && tg_type_of(args->x) != TG_F32 && !c.phi_f32 && c.n > 0 &&
           are_whole(tensors, 1);
}

/* Tiles of 8 columns that a warp takes of phi: few enough for its registers. */
static int tiles_of_warp(int columns)
{
    return columns <= 8 ? 1 : columns > 16 && columns <= 24 ? 3 : MOST_TILES;
}

static int tiles_of(int columns)
{
    const int of_warp = tiles_of_warp(columns);
    return (int)ceil_div(columns, 8 * of_warp) * of_warp;
}

/* Chunks of phi in the order of tiles; 0: it is taken as it lies. */
static int64_t packed_chunks(const coeffs_args &c, int tiles)
{
    if (c.columns % 8 == 0 && (uintptr_t)c.phi % 16 == 0)
        return 0;
    return ceil_div((int64_t)c.streams * c.n, STEP) * PARTS_OF_STEP * tiles * 32;
}

template <class T, int TILES, bool AS_IT_LIES>
static void launch_tiles_as(const cuda_call &call, const tensor_args &a)
{
    const size_t shared = TENSOR_STAGES * sizeof(tensor_stage<TILES, AS_IT_LIES>);
    const dim3 grid((unsigned)ceil_div(a.f.c.tokens, WARPS * TOKENS), (unsigned)(a.tiles / TILES),
                    (unsigned)a.f.splits);
    const auto kernel = tensor_products_kernel<T, TILES, AS_IT_LIES>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (AS_IT_LIES)
        kernel<<<grid, TENSOR_THREADS, shared, call.stream>>>(a);
    else
        launch_behind_with(shared, call, kernel, grid, dim3(TENSOR_THREADS), a);
}

template <class T, int TILES>
static void launch_tiles_of(const cuda_call &call, const tensor_args &a)
{
    if (a.packed)
        launch_tiles_as<T, TILES, false>(call, a);
    else
        launch_tiles_as<T, TILES, true>(call, a);
}

template <class T> static void launch_tensor_of(const cuda_call &call, const tensor_args &a)
{
    const int of_warp = tiles_of_warp(a.f.c.columns);
    if (a.packed)
        pack_phi_kernel<T>
            <<<(unsigned)ceil_div(packed_chunks(a.f.c, a.tiles), 256), 256, 0, call.stream>>>(a);
    if (of_warp == 1)
        launch_tiles_of<T, 1>(call, a);
    else if (of_warp == 3)
        launch_tiles_of<T, 3>(call, a);
    else
        launch_tiles_of<T, MOST_TILES>(call, a);
}

static void launch_tensor(const cuda_call &call, const tg_tensor *x, const tensor_args &a)
{
    if (tg_type_of(x) == TG_BF16)
        launch_tensor_of<bf16>(call, a);
    else
        launch_tensor_of<f16>(call, a);
}

#endif
