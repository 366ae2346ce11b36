/* softmax_jsd_pair.cuh - where a pair of rows lies: in memory, or held in shared memory. */
#ifndef CUDA_SOFTMAX_JSD_PAIR_CUH
#define CUDA_SOFTMAX_JSD_PAIR_CUH

#include "rows/held.cuh"
#include "rows/mixed.cuh"

/* Both in memory. */
template <class T> struct walked_pair {
    static constexpr bool CAN_KEEP = false, HELD = false;
    const T *student, *teacher;

    template <bool, class TEAM, class EACH>
    __device__ __forceinline__ void for_each(const TEAM &t, int n, const EACH &each) const
    {
        for_chunks<T, 0>(t, n, [&](int, int j) {
            float x[V<T>], y[V<T>];
            widen<T>(load(student + j, n - j, MINUS_INFINITY<T>), x);
            widen<T>(load(teacher + j, n - j, MINUS_INFINITY<T>), y);
            each(j, x, y);
        });
    }
};

enum {
    PAIR_THREADS = 256 /* of a block that holds two rows, or a part of them */,
    /* how far apart the logarithms of two rows' largest powers may be, if powers are to count from
     * one base */
    ROOM_OF_BASES = 16,
    HIGHEST_BASE = 64 /* beyond that its rounding would be seen in sums of powers */
};

typedef cluster_team<PAIR_THREADS> pair_team;

/* Both in shared memory, of whole chunks, which each thread of a team of blocks of PAIR_THREADS
 * copied there for itself. KEEP: what `each` makes of f32 stays in their place. */
template <class T> struct held_pair {
    static constexpr bool CAN_KEEP = sizeof(T) == 4, HELD = true;
    uint4 *memory;

    template <class TEAM>
    __device__ __forceinline__ void take(const TEAM &t, int n, const T *student,
                                         const T *teacher) const
    {
        for_chunks_held(t, n, [&](int j, uint4 *at) {
            copy_ahead(at, student + j);
            copy_ahead(at + PAIR_THREADS, teacher + j);
        });
    }

    template <bool KEEP, class TEAM, class EACH>
    __device__ __forceinline__ void for_each(const TEAM &t, int n, const EACH &each) const
    {
        for_chunks_held(t, n, [&](int j, uint4 *at) {
            float x[V<T>], y[V<T>];
            widen<T>(at[0], x);
            widen<T>(at[PAIR_THREADS], y);
            each(j, x, y);
            if constexpr (KEEP && CAN_KEEP) {
                at[0] = narrow<T>(x);
                at[PAIR_THREADS] = narrow<T>(y);
            }
        });
    }

  private:
    template <class TEAM, class EACH>
    __device__ __forceinline__ void for_chunks_held(const TEAM &t, int n, const EACH &each) const
    {
        uint4 *at = memory + threadIdx.x;
        for (int j = t.lane * V<T>; j < n; j += t.lanes * V<T>, at += 2 * PAIR_THREADS)
            each(j, at);
    }
};

#endif
