/* The backward of flash_attention on the CPU: what its units share. */
#ifndef TG_FLASH_ATTENTION_CPU_BACKWARD_H
#define TG_FLASH_ATTENTION_CPU_BACKWARD_H

#include "flash_attention_cpu.h"
#include "flash_attention_cpu_kernels.h"

#define fa_gradient_words TG_AT_LEVEL(fa_gradient_words)
#define fa_backward_keys TG_AT_LEVEL(fa_backward_keys)
#define fa_block_at TG_AT_LEVEL(fa_block_at)
#define fa_prepare_tasks TG_AT_LEVEL(fa_prepare_tasks)
#define fa_sink_tasks TG_AT_LEVEL(fa_sink_tasks)

/* How a sequence is cut. A task owns some blocks of keys of one key head, and a share of the query
 * heads that read it. Distances are in floats. */
typedef struct fa_cut {
    fa_sequence of;
    int64_t first;   /* key that any query sees */
    int64_t padded;  /* queries, rounded up to FA_QB */
    int64_t shares;  /* tasks that share the query heads of a key head, 1 or all */
    int64_t tiles;   /* of keys in a block */
    int64_t chunks;  /* tasks that share the keys of a head */
    int64_t dq_size; /* of a task: [heads][slice][padded][64] */
    int64_t dq, dkv; /* where its parts of dq begin, if chunks is not 1, and of dk and dv, if shares
                        is not 1: [Hk,shares] of [L,D] and [L,E] */
} fa_cut;

typedef struct fa_backward {
    fa_sizes n;
    fa_view q, k, v, y, dy, dq, dk, dv;
    const float *lse; /* [B,Hq,S] */
    const tg_tensor *dsinks;
    int64_t group; /* query heads of a key head */
    fa_cut *cut;   /* of each sequence */
    /* before each sequence, and in all: tasks; blocks of FA_QB queries of all heads; rows of keys
     * of all key heads */
    int64_t *tasks, *blocks, *keys;
    float *rows;    /* by sequence [Hq,2,padded]: lse, and sum over d of dy y */
    float *dq_sums; /* parts of dq of tasks that share it */
    float *dq_own;  /* dq of a task that does not, dq_most for each worker */
    int64_t dq_most;
    float *dkv;
    char *scratch;
    int64_t scratch_size;
} fa_backward;

/* lse of the first query of a sequence's head, and `padded` floats further the sums of dy y */
SIMD_INLINE float *fa_rows_at(const fa_backward *w, int64_t sequence, int64_t head)
{
    return w->rows + w->blocks[sequence] * 2 * FA_QB + head * 2 * w->cut[sequence].padded;
}

/* A block of queries of a head. */
typedef struct fa_block_of {
    int64_t sequence, head, begin;
} fa_block_of;

fa_block_of fa_block_at(const fa_backward *w, int64_t i);
/* Fills the rows of blocks of queries, in one pass over y and dy; and dsinks of heads. */
void fa_prepare_tasks(void *backward, int64_t begin, int64_t end, int worker);
void fa_sink_tasks(void *backward, int64_t begin, int64_t end, int worker);

/* Of a share of the query heads that read a key head. */
typedef struct fa_owner {
    int64_t sequence, key_head, share;
} fa_owner;

/* Words of scratch for blocks of so many tiles of keys. */
int64_t fa_gradient_words(int64_t d, int64_t e, int64_t tiles);
/* dk and dv of a block of keys from k0 on, and its part of dq: [heads][slice][padded][64]. */
void fa_backward_keys(const fa_backward *w, word *scratch, fa_owner owner, int64_t k0, float *dq);

#endif
