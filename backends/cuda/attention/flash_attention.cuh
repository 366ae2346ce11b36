/* flash_attention.cuh - attention as its kernels see it. */
#ifndef CUDA_FLASH_ATTENTION_CUH
#define CUDA_FLASH_ATTENTION_CUH

#include <math.h>

#include "rows/elements.cuh"

enum { FLASH_MOST_D = 256 };

/* A tensor [batch, position, head, d]; distances in bytes. */
struct flash_view {
    char *data;
    int64_t batch, row, head;
    __device__ __forceinline__ char *at(int b, int h, int r) const
    {
        return data + b * batch + h * head + r * row;
    }
};

/* A number that is known when code is compiled, as an argument. */
template <int N> struct number {
    static constexpr int value = N;
};

/* of_rows, of_heads: its dimensions of positions and heads. */
static inline flash_view flash_view_of(const tg_tensor *t, int of_rows, int of_heads)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(t));
    flash_view v = {data_of(t), tg_stride(t, 0) * size, tg_stride(t, of_rows) * size,
                    tg_stride(t, of_heads) * size};
    return v;
}

/* Whether all rows of a tensor are whole chunks of 16 bytes, also those that would follow where a
 * dimension has one entry, as far as its stride tells. */
static inline bool flash_is_whole(const tg_tensor *t)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(t));
    int64_t bits = width_of(t) * size | (int64_t)(uintptr_t)data_of(t);
    for (int i = 0; i < 3 && t->strides; i++)
        bits |= t->shape[i] > 1 || t->strides[i] >= width_of(t) ? t->strides[i] * size : 0;
    return bits % 16 == 0;
}

/* The scale that 0 stands for is 1 / sqrt(d). */
static inline double flash_scale(double scale, int64_t d)
{
    return scale != 0 ? scale : d > 0 ? 1 / sqrt((double)d) : 1;
}

constexpr float LN_2 = 0.693147180559945309f;

__device__ __forceinline__ int lane_id()
{
    return threadIdx.x % 32;
}

/* What lies below 2^-126 is 0. */
__device__ __forceinline__ float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* An additive bias [batch, head, query, key], or none; distances in elements. */
struct flash_bias {
    vector_span of;
    int64_t batch, head, row;
};

/* What a query's score becomes its probability with, and its gradient: lse / ln 2 (+inf where there
 * is nothing to see), dy . y. */
typedef float2 flash_row;

/* A call. Rows that see each other are a sequence: an entry of the batch or, where rows are packed,
 * what lies between two boundaries (flash_attention_sequences.cuh). Query i of a sequence stands at
 * its key i + keys - queries, and sees the keys from `left` before it to `right` behind it. */
struct flash_problem {
    flash_view q, k, v, y, dy, dq, dk, dv;
    float *lse;      /* [B,Hq,S]; of the forward it may be NULL */
    flash_row *rows; /* [B,Hq,S] */
    int batches, heads, key_heads, group, queries, keys; /* as the tensors have them */
    int d, e;                                            /* width of keys and of values */
    const int2 *bounds; /* [sequences + 1]: first query and first key of each, in workspace; NULL */
    int sequences;      /* of all batches */
    int64_t left, right; /* queries + keys where there is no limit */
    int end; /* of one sequence a batch, without `left`: query i sees the keys below i + end */
    float scale, factor; /* factor = scale / ln 2: exponentials are powers of 2 */
    float softcap;       /* 0: none */
    flash_bias bias;
    vector_span sinks, dsinks; /* [Hq] */
    bool alike; /* tiles of keys begin at multiples of their size, whichever queries there are */
    tg_dropout dropout;
};

/* Whether scores are products times a factor, and all of their powers count. */
static inline bool flash_has_plain_scores(const flash_problem &p)
{
    return p.softcap == 0 && !p.bias.of.data && p.dropout.least == 0;
}

/* Launches for tensors of element type T: q, k, v, y and dy have rows that begin at a multiple of
 * 16 bytes and go on, with zeros, to the next one. */
template <class T> void flash_attention_forward(const flash_problem &p, cudaStream_t stream);
template <class T> void flash_attention_backward(const flash_problem &p, cudaStream_t stream);
/* The same of few queries and, each batch being a sequence, many keys; `room` of so many bytes lies
 * in the workspace. */
template <class T> int64_t flash_decode_bytes(const flash_problem &p, int processors);
template <class T>
void flash_attention_decode(const flash_problem &p, char *room, const cuda_call &call);
/* The first two by Hopper's own instructions: T of 16 bits, no bias, nothing empty, whole rows of
 * all tensors. `room` lies in the workspace, and has as many bytes as the other function says.
 * False, and nothing has been launched, if the copy engine cannot read a tensor as it lies. */
template <class T> int64_t flash_forward_sm90_room(const flash_problem &p);
template <class T>
bool flash_attention_forward_sm90(const flash_problem &p, char *room, int processors,
                                  cudaStream_t stream);
/* The same of p.alike and few queries, with the bits of many; 0 bytes where the call is no such. */
template <class T> int64_t flash_few_sm90_room(const flash_problem &p);
template <class T>
bool flash_attention_few_sm90(const flash_problem &p, char *room, const cuda_call &call);
template <class T> int64_t flash_backward_sm90_room(const flash_problem &p);
template <class T>
bool flash_attention_backward_sm90(const flash_problem &p, char *room, int processors,
                                   cudaStream_t stream);

#endif
