/* mhc_coeffs_slabs.cuh - dx and dphi on tensor cores, where x and phi are of one type of 16 bits: a
 * block has a slab of columns of x and goes over tokens. It reads x once, for its products with z,
 * which are dphi, and for dx, the products of z with phi, which stays in registers.
 *
 * All factors are bf16: x and phi of f16 are taken as sums of two, z, which is f32, as the sum of
 * Z_PARTS, of which nothing is lost: its products may all but cancel each other. */
#ifndef CUDA_MHC_COEFFS_SLABS_CUH
#define CUDA_MHC_COEFFS_SLABS_CUH

#include "mhc_coeffs_gradients.cuh"
#include "rows/fragments.cuh"

enum {
    SLAB_THREADS = 256,     /* in warps of 32 columns of x */
    SLAB = SLAB_THREADS,    /* columns of x, 8 a chunk */
    SLAB_CHUNKS = SLAB / 8, /* of a token */
    SLAB_TOKENS = 32,       /* that come together */
    SLAB_STAGES = 4
};

/* The chunks of some tokens. Those of x lie at place c ^ mix_of(token), those of z apart by an odd
 * number of chunks: a warp reads its pieces from all banks at once. */
template <int UNITS> struct slab_stage {
    static constexpr int OF_Z = Z_PARTS * UNITS; /* chunks of a token: high parts, lower ones */
    static constexpr int PAIRS = (OF_Z + 1) / 2;
    uint4 x[SLAB_TOKENS][SLAB_CHUNKS];
    uint4 z[SLAB_TOKENS][2 * PAIRS + 1]; /* behind those an odd number leaves one of zeros */
    float back[SLAB_TOKENS];
};

/* Two elements as sums of PARTS pairs of bf16. */
template <class T> constexpr int PARTS = std::is_same<T, bf16>::value ? 1 : 2;

template <class T>
__device__ __forceinline__ static void split_pair(uint32_t bits, uint32_t (&part)[PARTS<T>])
{
    if constexpr (PARTS<T> == 1) {
        part[0] = bits;
    } else {
        const float2 x = widen_pair<T>(bits);
        part[0] = narrow_pair<bf16>(x.x, x.y);
        const float2 high = widen_pair<bf16>(part[0]);
        part[1] = narrow_pair<bf16>(x.x - high.x, x.y - high.y);
    }
}

/* What the threads of a block ask for. */
template <class T, int UNITS> struct slab_reader {
    typedef slab_stage<UNITS> stage;
    const backward_args &a;
    const char *x; /* of token 0, the chunk of this lane */
    int64_t of_token, end;
    bool inside;

    __device__ __forceinline__ slab_reader(const backward_args &args, int64_t last)
        : a(args), of_token(args.c.streams * args.c.x.stride), end(last)
    {
        const int column = (int)blockIdx.x * SLAB + (int)threadIdx.x % 32 * 8;
        inside = column < a.c.streams * a.c.n;
        x = (const char *)(a.c.x.row<T>(inside ? column / a.c.n : 0) +
                           (inside ? column % a.c.n : 0));
    }

    /* A warp has all chunks of a token. */
    __device__ __forceinline__ void ask_x(stage &to, int64_t first) const
    {
        const int lane = (int)threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < SLAB_TOKENS; i += SLAB_THREADS / 32) {
            const int token = i + (int)threadIdx.x / 32;
            const bool there = inside && first + token < end;
            copy_ahead(&to.x[token][lane ^ mix_of(token)],
                       x + (there ? first + token : 0) * of_token, there);
        }
    }
    __device__ __forceinline__ void ask_z(stage &to, int64_t first) const
    {
        constexpr int OF_Z = stage::OF_Z;
        for (int e = (int)threadIdx.x; e < SLAB_TOKENS * OF_Z; e += SLAB_THREADS) {
            const bool there = first + e / OF_Z < end;
            copy_ahead(&to.z[e / OF_Z][e % OF_Z],
                       (const uint4 *)a.split + (there ? first * OF_Z + e : 0), there);
        }
        if (threadIdx.x < SLAB_TOKENS / 4) { /* `back` has whole chunks */
            const int64_t token = first + threadIdx.x * 4;
            copy_ahead((uint4 *)to.back + threadIdx.x, a.back + (token < end ? token : 0),
                       token < end);
        }
    }
};

/* What a warp has of its 32 columns of x, in tiles of 8. */
template <class T, int UNITS> struct slab_warp {
    typedef slab_stage<UNITS> stage;
    uint32_t phi[PARTS<T>][UNITS][4];
    float dphi[UNITS][4][4]; /* [two units of two parts of z][tile]: x z */

    /* A lane's chunk of dx is of four tiles: column i of tile j is column i / 2 * 8 + 2 j + i % 2
     * of it. */
    __device__ __forceinline__ void begin(const coeffs_args &c)
    {
        const int lane = (int)threadIdx.x % 32, width = c.streams * c.n,
                  first = (int)blockIdx.x * SLAB + (int)threadIdx.x / 32 * 32 + lane / 8 * 8 +
                          lane / 4 % 2;
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int u = 0; u < UNITS; u++) {
                const int row = min(first + 2 * j, width - 1), column = u * UNIT + lane % 4 * 2;
                const float low = phi_at<T>(c, row, column), high = phi_at<T>(c, row, column + 1);
                uint32_t part[PARTS<T>];
                split_pair<T>(narrow_pair<T>(low, high), part);
#pragma unroll
                for (int p = 0; p < PARTS<T>; p++)
                    phi[p][u][j] = part[p];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    dphi[u][j][i] = 0;
            }
    }

    /* Of 16 tokens from `first` on. */
    __device__ __forceinline__ void add_dphi(const stage &s, int first)
    {
        const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
        const int token = first + lane / 8 % 2 * 8 + lane % 8;
        uint32_t x[PARTS<T>][4][2];
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            uint32_t raw[4], part[PARTS<T>];
            load_transposed(
                raw, shared_address(&s.x[token][(warp * 4 + j + lane / 16) ^ mix_of(token)]));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                split_pair<T>(raw[i], part);
#pragma unroll
                for (int p = 0; p < PARTS<T>; p++)
                    x[p][j + i / 2][i % 2] = part[p];
            }
        }
#pragma unroll
        for (int m = 0; m < stage::PAIRS; m++) {
            uint32_t z[4];
            load_transposed(
                z, shared_address(&s.z[first + lane / 16 * 8 + lane % 8][2 * m + lane / 8 % 2]));
#pragma unroll
            for (int p = 0; p < PARTS<T>; p++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    multiply_16<bf16>(dphi[m % UNITS][j], z, x[p][j][0], x[p][j][1]);
        }
    }

    /* dx of a token's chunk: half of the lane's sums. */
    __device__ __forceinline__ uint4 chunk_of(const stage &s, int token, int half,
                                              const float (&sum)[4][4]) const
    {
        const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
        const float back = s.back[token];
        float x[8];
        widen<T>(s.x[token][(warp * 4 + lane % 4) ^ mix_of(token)], x);
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = sum[i / 2][2 * half + i % 2] - back * x[i];
        return narrow<T>(x);
    }

    /* each(token, chunk of dx), of 16 tokens from `first` on. */
    template <class EACH>
    __device__ __forceinline__ void dx(const stage &s, int first, const EACH &each) const
    {
        const int lane = (int)threadIdx.x % 32;
        float sum[4][4] = {};
#pragma unroll
        for (int k = 0; k < stage::PAIRS; k++) {
            uint32_t z[4];
            load_fragments(
                z, shared_address(&s.z[first + lane / 8 % 2 * 8 + lane % 8][2 * k + lane / 16]));
#pragma unroll
            for (int p = 0; p < PARTS<T>; p++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    multiply_16<bf16>(sum[j], z, phi[p][2 * k % UNITS][j],
                                      phi[p][(2 * k + 1) % UNITS][j]);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int token = first + half * 8 + lane / 4;
            each(token, chunk_of(s, token, half, sum));
        }
    }

    /* Its part of dphi: the sums of both parts of z that have a place. */
    __device__ __forceinline__ void put_parts(const backward_args &a) const
    {
        const int lane = (int)threadIdx.x % 32, width = a.c.streams * a.c.n;
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int u = 0; u < UNITS; u++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int low = UNITS + u, column = u * UNIT + lane / 4,
                              k = (int)blockIdx.x * SLAB + (int)threadIdx.x / 32 * 32 + j * 8 +
                                  lane % 4 * 2 + i;
                    if (k < width && column < a.c.columns)
                        a.parts[((int64_t)blockIdx.y * width + k) * a.c.columns + column] =
                            dphi[u / 2][j][u % 2 * 2 + i] + dphi[low / 2][j][low % 2 * 2 + i];
                }
    }
};

/* Slab blockIdx.x, tokens of split blockIdx.y. The tokens of a stage are asked for when all threads
 * have done with those that were in its place. */
template <class T, int UNITS>
__global__ void __launch_bounds__(SLAB_THREADS, 2)
    coeffs_slab_kernel(const __grid_constant__ backward_args a)
{
    extern __shared__ uint4 memory[];
    typedef slab_stage<UNITS> stage;
    stage *const stages = (stage *)memory;
    const int lane = (int)threadIdx.x % 32,
              column = (int)blockIdx.x * SLAB + (int)threadIdx.x / 32 * 32 + lane % 4 * 8;
    const int64_t begin = blockIdx.y * a.slice, end = min(begin + a.slice, a.c.tokens);
    const slab_reader<T, UNITS> reader(a, end);
    const bool inside = column < a.c.streams * a.c.n;
    char *const dx =
        (char *)(a.dx.row<T>(inside ? column / a.c.n : 0) + (inside ? column % a.c.n : 0));
    slab_warp<T, UNITS> warp;
    for (int s = 0; s < SLAB_STAGES - 1; s++)
        reader.ask_x(stages[s], begin + s * SLAB_TOKENS);
    for (int e = (int)threadIdx.x; stage::OF_Z % 2 && e < SLAB_STAGES * SLAB_TOKENS;
         e += SLAB_THREADS)
        stages[e / SLAB_TOKENS].z[e % SLAB_TOKENS][stage::OF_Z] = make_uint4(0, 0, 0, 0);
    warp.begin(a.c);
    wait_for_the_kernel_before();
    for (int s = 0; s < SLAB_STAGES - 1; s++) {
        reader.ask_z(stages[s], begin + s * SLAB_TOKENS);
        end_batch();
    }
    int slot = 0;
    for (int64_t t = begin; t < end; t += SLAB_TOKENS) {
        const int free = slot == 0 ? SLAB_STAGES - 1 : slot - 1;
        const int64_t next = t + (SLAB_STAGES - 1) * SLAB_TOKENS;
        wait_for_batches<SLAB_STAGES - 2>();
        __syncthreads();
        if (next < end) {
            reader.ask_x(stages[free], next);
            reader.ask_z(stages[free], next);
        }
        end_batch();
#pragma unroll
        for (int first = 0; first < SLAB_TOKENS; first += 16) {
            if (a.parts)
                warp.add_dphi(stages[slot], first);
            warp.dx(stages[slot], first, [&](int token, uint4 chunk) {
                if (inside && t + token < end)
                    *(uint4 *)(dx + (t + token) * a.c.streams * a.dx.stride) = chunk;
            });
        }
        slot = slot + 1 == SLAB_STAGES ? 0 : slot + 1;
    }
    if (a.parts)
        warp.put_parts(a);
}

/* ---- launching ---- */

static bool suits_slabs(const cuda_call &call, const tg_mhc_coeffs_backward_args *args,
                        const coeffs_args &c)
{
    const tg_tensor *const tensors[] = {args->x, args->dx};
    return call.capability >= 80 && tg_type_of(args->x) != TG_F32 && !c.phi_f32 && c.n > 0 &&
           c.columns <= MOST_UNITS * UNIT && are_whole(tensors, 2);
}

/* Units of a number of columns for which there is a kernel. */
static int units_of(int columns)
{
    return columns <= UNIT ? 1 : MOST_UNITS;
}

template <class T, int UNITS>
static void launch_slabs_of(const cuda_call &call, const backward_args &a)
{
    const size_t shared = SLAB_STAGES * sizeof(slab_stage<UNITS>);
    const dim3 grid((unsigned)ceil_div((int64_t)a.c.streams * a.c.n, SLAB), (unsigned)a.splits);
    cudaFuncSetAttribute(coeffs_slab_kernel<T, UNITS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)shared);
    launch_behind_with(shared, call, coeffs_slab_kernel<T, UNITS>, grid, dim3(SLAB_THREADS), a);
}

template <class T> static void launch_slabs(const cuda_call &call, const backward_args &a)
{
    if (a.padded == UNIT)
        launch_slabs_of<T, 1>(call, a);
    else
        launch_slabs_of<T, MOST_UNITS>(call, a);
}

#endif
