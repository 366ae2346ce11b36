/* flash_attention_gradients_hopper.cuh - the backward on Hopper: what becomes of scores and
 * gradients in registers, and how they leave. */
#ifndef CUDA_FLASH_ATTENTION_GRADIENTS_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_GRADIENTS_HOPPER_CUH

#include "flash_attention_jobs_hopper.cuh"

/* Scores become probabilities: queries along the columns, whose lse and delta lie in shared
 * memory. */
template <class T, int N>
__device__ __forceinline__ void flash_probabilities(float (&s)[N][4], uint32_t rows, float factor)
{
#pragma unroll
    for (int n = 0; n < N; n++) {
        const float4 of = shared_float4(rows + (n * 8 + lane_id() % 4 * 2) * 8);
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[n][i] = power_of_2(fmaf(s[n][i], factor, P_EXPONENT<T> - (i % 2 ? of.z : of.x)));
    }
}

/* Probabilities of keys that a query does not see become 0: query i sees those below i + end, and
 * not those below i + begin. */
template <bool BOTH, int N>
__device__ __forceinline__ void flash_hide(float (&s)[N][4], int key, int keys, int query,
                                           int begin, int end)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = key + i / 2 * 8, of = query + n * 8 + i % 2;
            if (at >= min(keys, of + end) || (BOTH && at < of + begin))
                s[n][i] = 0;
        }
}

/* Scores of products become hyperbolic tangents, and dp what its difference from delta is times
 * their slope. */
template <int N>
__device__ __forceinline__ void flash_cap(float (&s)[N][4], float (&dp)[N][4], uint32_t rows,
                                          float to_cap)
{
#pragma unroll
    for (int n = 0; n < N; n++) {
        const float4 of = shared_float4(rows + (n * 8 + lane_id() % 4 * 2) * 8);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const tanh_pair t = tanh_and_slope(s[n][i] * to_cap);
            s[n][i] = t.value;
            dp[n][i] = (dp[n][i] - (i % 2 ? of.w : of.y)) * t.slope;
        }
    }
}

/* dv += p^T dy, and dp^T becomes ds^T, rounded: step by step, so that products run while
 * differences are computed, and registers of what has been used are free. Of delta as much is
 * subtracted as `open` says: 1, or 0 where that has been done. Ends with dv's products open. */
template <class T, int N, int M>
__device__ __forceinline__ void flash_differences(uint32_t (&ds)[N / 2][4], float (&dv)[M][4],
                                                  const float (&s)[N][4], const float (&dp)[N][4],
                                                  uint32_t dy, int panel, uint32_t rows, float open)
{
#pragma unroll
    for (int k = 0; k < N / 2; k++) {
        uint32_t p[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            p[i] = narrow_pair<T>(s[2 * k + i / 2][i % 2 * 2], s[2 * k + i / 2][i % 2 * 2 + 1]);
        begin_products();
        multiply_step<T>(dv, p, descriptor_of(dy + k * 16 * PANEL_PITCH, panel));
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const float4 of = shared_float4(rows + ((2 * k + n) * 8 + lane_id() % 4 * 2) * 8);
            float x[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[i] = factor_of<T>(s[2 * k + n][i],
                                    P_UNIT<T> * fmaf(-open, i % 2 ? of.w : of.y, dp[2 * k + n][i]));
            ds[k][2 * n] = narrow_pair<T>(x[0], x[1]);
            ds[k][2 * n + 1] = narrow_pair<T>(x[2], x[3]);
        }
    }
    end_products();
}

/* A warp's 16 rows of ds^T, from row `first` of the tile on, and from chunk `from` of a row on. */
template <int ROWS, int STEPS>
__device__ __forceinline__ void store_factor(uint32_t tile, int first,
                                             const uint32_t (&a)[STEPS][4], int from = 0)
{
    const int lane = lane_id(), row = first + lane % 16;
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        const int chunk = from + 2 * k % 8 + lane / 16;
        const uint32_t to =
            tile + 2 * k / 8 * ROWS * PANEL_PITCH + row * PANEL_PITCH + ((chunk ^ row % 8) << 4);
        store_matrices(to, a[k][0], a[k][1], a[k][2], a[k][3]);
    }
}

__device__ __forceinline__ void store_four(uint32_t to, const float (&x)[4])
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x[0]), "f"(x[1]),
                 "f"(x[2]), "f"(x[3])
                 : "memory");
}

__device__ __forceinline__ void add_four(float4 *to, const float (&x)[4])
{
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]),
                 "f"(x[1]), "f"(x[2]), "f"(x[3])
                 : "memory");
}

/* A warpgroup's half of a tile of dq so far, and this job's part, are the result. */
template <class T, class C>
__device__ __forceinline__ void end_dq(const flash_backward_jobs &a, const flash_job &j,
                                       const flash_step &s, int half, const float4 *at, bool first,
                                       float (&sum)[C::OF_SUMS / 8][4])
{
    if (!first) {
#pragma unroll
        for (int n = 0; n < C::OF_SUMS / 8; n++) {
            const float4 before = __ldcg(at + n * WARPGROUP);
            sum[n][0] += before.x;
            sum[n][1] += before.y;
            sum[n][2] += before.z;
            sum[n][3] += before.w;
        }
    }
    const int row = s.tile * C::QUERIES + (C::QUERIES == 128 ? 64 * half : 0) +
                    threadIdx.x % WARPGROUP / 32 * 16;
    const int column = C::QUERIES == 128 ? 0 : half * (C::D - C::OF_SUMS);
    const float factor[2] = {a.p.scale, a.p.scale};
    store_sums<T>(sum, factor, a.p.dq.at(j.of.batch, s.head, j.of.query + row) + column * sizeof(T),
                  a.p.dq.row, j.of.queries - row, a.p.d - column);
}

/* A warpgroup's half of a tile of dq: the first job writes, others add, and the last one has the
 * result. (One branch for all numbers: a branch for each was an eighth of the kernel's time.) */
template <class T, class C>
__device__ __forceinline__ void add_to_dq(const flash_backward_jobs &a, const flash_job &j,
                                          const flash_step &s, int half, uint32_t memory,
                                          int number, float (&sum)[C::OF_SUMS / 8][4])
{
    constexpr int N = C::OF_SUMS / 8;
    const int thread = threadIdx.x % WARPGROUP, at = 8 * (number % C::TURNS);
    const int phase = number / C::TURNS % 2;
    const flash_turn turn = flash_turn_of<C>(j, s);
    float4 *to = (float4 *)(a.sums + (s.place(a, j) * 2 + half) * (64 * C::OF_SUMS)) + thread;
    if (C::TILES > 0)
        wait_barrier(memory + C::EMPTY + at, phase ^ 1);
    if (C::TILES == 0 || turn.last)
        wait_barrier(memory + C::TURN + at, phase);
    if (turn.last) {
        end_dq<T, C>(a, j, s, half, to, turn.first, sum);
    } else if (C::TILES > 0) {
        const uint32_t tile = memory + C::DQ + number % C::TURNS * C::OF_DQ;
        const uint32_t own = tile + (half * (16 * C::OF_SUMS) + thread) * 16;
#pragma unroll
        for (int n = 0; n < N; n++)
            store_four(own + n * (WARPGROUP * 16), sum[n]);
        fence_shared();
    } else if (turn.first) {
#pragma unroll
        for (int n = 0; n < N; n++)
            to[n * WARPGROUP] = make_float4(sum[n][0], sum[n][1], sum[n][2], sum[n][3]);
    } else {
#pragma unroll
        for (int n = 0; n < N; n++)
            add_four(to + n * WARPGROUP, sum[n]);
    }
    __syncwarp();
    if (lane_id() == 0)
        arrive(memory + C::ADDED + at);
}

/* The job's keys are through, and their memory is another's. */
template <class T, class C>
__device__ __forceinline__ void end_keys(const flash_problem &p, uint32_t memory,
                                         const flash_job &j, int warp_key, float (&dk)[C::D / 8][4],
                                         float (&dv)[C::D / 8][4])
{
    settle(dk);
    settle(dv);
    __syncwarp(); /* that all lanes know the job, also where it has no step */
    if (lane_id() == 0)
        arrive(memory + C::KEYS_FREE);
    const float of_dk[2] = {p.scale, p.scale}, of_dv[2] = {P_UNIT<T>, P_UNIT<T>};
    const int at = j.of.key + warp_key, left = j.of.keys - warp_key;
    store_sums<T>(dk, of_dk, p.dk.at(j.of.batch, j.head, at), p.dk.row, left, p.d);
    store_sums<T>(dv, of_dv, p.dv.at(j.of.batch, j.head, at), p.dv.row, left, p.e);
}

/* ---- what is here ---- */

template <class C> __device__ __forceinline__ void wait_for_dy(uint32_t memory, int number)
{
    wait_barrier(memory + C::DY_HERE + 8 * (number % C::STAGES), number / C::STAGES % 2);
}

/* Queries, and where some of the tile are none, or see nothing, their dy. */
template <class C>
__device__ __forceinline__ void wait_for_queries(uint32_t memory, const flash_job &j, int number,
                                                 int query)
{
    const int stage = number % C::STAGES;
    const int first = 1 - j.of.end - query, end = j.of.queries - query;
    wait_barrier(memory + C::Q_HERE + 8 * stage, number / C::STAGES % 2);
    if (C::PLAIN || (first <= 0 && end >= C::QUERIES))
        return;
    wait_for_dy<C>(memory, number);
    clear_outside<C::D / 64, C::QUERIES>(memory + C::Q + stage * C::OF_Q, first, end, C::CLEARED,
                                         C::GROUPS * WARPGROUP);
    clear_outside<C::E / 64, C::QUERIES>(memory + C::DY + stage * C::OF_DY, first, end, C::CLEARED,
                                         C::GROUPS * WARPGROUP);
}

/* Keys and values that are none, or that nobody sees. */
template <class C>
__device__ __forceinline__ void clear_keys(uint32_t memory, const flash_job &j, int steps)
{
    const int first = j.of.begin - j.row, end = j.of.keys - j.row;
    if (C::PLAIN || steps == 0 || (first <= 0 && end >= C::KEYS))
        return;
    clear_outside<C::D / 64, C::KEYS>(memory + C::K, first, end, C::CLEARED, C::GROUPS * WARPGROUP);
    clear_outside<C::E / 64, C::KEYS>(memory + C::V, first, end, C::CLEARED, C::GROUPS * WARPGROUP);
}

#endif
