/* fused_ce_tvd_pieces.cuh - a thread's pieces of pairs of rows of 16 bits: copies of the row to
 * come in shared memory, and the two passes over a row. Exponentials stay from the first pass to
 * the second: those of some pieces in registers, those of others in shared memory. */
#ifndef CUDA_FUSED_CE_TVD_PIECES_CUH
#define CUDA_FUSED_CE_TVD_PIECES_CUH

#include "fused_ce_tvd_row.cuh"

enum {
    RING_THREADS = PAIR_THREADS,
    RING_STORED = 3, /* pieces, a chunk of both rows, whose exponentials stay in shared memory */
    RING_KEPT = 4, /* those whose exponentials stay in registers; of one more they are made twice */
    RING_PIECES = RING_STORED + RING_KEPT + 1,
    RING_CHUNKS = 2 * RING_PIECES + 4 * RING_STORED, /* of a thread in shared memory */
    RING_BYTES = RING_CHUNKS * RING_THREADS * 16,
    RING_SUMS = 4 /* of an exchange */
};

/* A thread's chunks in shared memory: those of the row that is copied, piece by piece, and behind
 * them exponentials. */
template <class T> struct pair_ring {
    uint4 *own;
    int begin, pieces, most; /* its first chunk of a row, its pieces, and those of any thread */

    __device__ __forceinline__ uint4 *copied(int p, int m) const
    {
        return own + (2 * p + m) * RING_THREADS;
    }
    __device__ __forceinline__ float4 *stored(int p, int m) const
    {
        return (float4 *)own + (2 * RING_PIECES + 4 * p + 2 * m) * RING_THREADS;
    }
    /* Places beyond the row have logits of -inf, and nothing ever comes there. */
    __device__ __forceinline__ void clear() const
    {
        const uint32_t pair = MINUS_INFINITY<T> | MINUS_INFINITY<T> << 16;
        for (int p = max(pieces, 0); p < RING_PIECES; p++)
            *copied(p, 0) = *copied(p, 1) = make_uint4(pair, pair, pair, pair);
    }
    /* Powers of a piece, relative to 2 to the bases. */
    __device__ __forceinline__ void take(int p, const float (&base)[2], float (&x)[2][V<T>]) const
    {
#pragma unroll
        for (int m = 0; m < 2; m++) {
            widen<T>(*copied(p, m), x[m]);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                x[m][i] = exp2_term(fmaf(x[m][i], LOG2_E, -base[m]));
        }
    }
    __device__ __forceinline__ void store(int p, const float (&x)[2][V<T>]) const
    {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < V<T>; i += 4)
                stored(p, m)[i / 4 * RING_THREADS] =
                    make_float4(x[m][i], x[m][i + 1], x[m][i + 2], x[m][i + 3]);
    }
    __device__ __forceinline__ void load(int p, float (&x)[2][V<T>]) const
    {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < V<T>; i += 4) {
                const float4 four = stored(p, m)[i / 4 * RING_THREADS];
                x[m][i] = four.x;
                x[m][i + 1] = four.y;
                x[m][i + 2] = four.z;
                x[m][i + 3] = four.w;
            }
    }
};

/* This thread's chunks of a row that is to be copied; a piece is a batch of copies. */
template <class T> struct ring_source {
    const uint4 *from[2];
    int pieces; /* 0: there is no row */

    __device__ __forceinline__ ring_source(const cetvd_args &a, const pair_ring<T> &ring, int r)
    {
        pieces = r < a.rows ? ring.pieces : 0;
        from[0] = (const uint4 *)a.student.row<T>(r) + ring.begin;
        from[1] = (const uint4 *)a.teacher.row<T>(r) + ring.begin;
        asm("" : "+l"(from[0]), "+l"(from[1])); /* addresses, not what they are made of */
    }
    __device__ __forceinline__ void ask(const pair_ring<T> &ring, int p) const
    {
        if (p < pieces)
#pragma unroll
            for (int m = 0; m < 2; m++)
                copy_ahead(ring.copied(p, m), from[m] + p * RING_THREADS);
        end_batch();
    }
};

/* run(p) of pieces FIRST to END - 1, each the constant p.AT. */
template <int P> struct ring_piece {
    static constexpr int AT = P;
};
template <int FIRST, int END, class RUN>
__device__ __forceinline__ static void for_pieces(const RUN &run)
{
    if constexpr (FIRST < END) {
        run(ring_piece<FIRST>());
        for_pieces<FIRST + 1, END>(run);
    }
}

template <class T> struct kept_powers {
    float of[RING_KEPT][2][V<T>];
};

/* The sums of the powers of both rows. All pieces of the next row but the last are asked for. What
 * may still be on its way when a piece is taken are the pieces behind it, the logits of the target
 * of the next row, and the pieces of the next row before it; these logits have come at the end. */
template <class T>
__device__ __forceinline__ static void
first_pass(const pair_ring<T> &ring, const ring_source<T> &next, const float (&base)[2],
           kept_powers<T> &kept, float (&sum)[RING_SUMS])
{
    const auto take = [&](auto p, float(&x)[2][V<T>]) {
        ring.take(p.AT, base, x);
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                sum[m] += x[m][i];
    };
    for_pieces<0, RING_PIECES>([&](auto p) {
        constexpr bool IS_LAST = p.AT == RING_PIECES - 1, IS_STORED = p.AT < RING_STORED;
        wait_for_batches<IS_LAST ? RING_PIECES - 1 : RING_PIECES>();
        if (p.AT < ring.most) {
            if constexpr (IS_STORED || IS_LAST) {
                float x[2][V<T>];
                take(p, x);
                if (IS_STORED)
                    ring.store(p.AT, x);
            } else {
                take(p, kept.of[p.AT - RING_STORED]);
            }
        }
        if (!IS_LAST)
            next.ask(ring, p.AT);
    });
}

/* Sums of |p - q| and p sign(p - q) over all classes; a power of the teacher's has `ratio` times
 * the probability of one of the student's, which has `share`. last: powers of the last piece. */
template <class T>
__device__ __forceinline__ static void
second_pass(const pair_ring<T> &ring, const kept_powers<T> &kept, const float (&last)[2][V<T>],
            float share, float ratio, float (&sum)[2])
{
    sum[0] = sum[1] = 0;
    const auto add = [&](const float(&x)[2][V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const float d = fmaf(-ratio, x[1][i], x[0][i]);
            sum[0] += fabsf(d);
            sum[1] += copysignf(x[0][i], d);
        }
    };
    if (RING_PIECES - 1 < ring.most)
        add(last);
    for_pieces<0, RING_KEPT>([&](auto k) {
        if (RING_STORED + k.AT < ring.most)
            add(kept.of[k.AT]);
    });
    for_pieces<0, RING_STORED>([&](auto p) {
        if (p.AT < ring.most) {
            float x[2][V<T>];
            ring.load(p.AT, x);
            add(x);
        }
    });
    sum[0] *= share;
    sum[1] *= share;
}

#endif
