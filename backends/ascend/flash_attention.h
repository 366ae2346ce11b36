/* flash_attention.h - what the host files of attention share: tensors as its kernels see them, and how they are cut. */
#ifndef ASCEND_FLASH_ATTENTION_H
#define ASCEND_FLASH_ATTENTION_H

#include "ascend.h"

/* f32 of a repeat; bytes that memory is fast with. */
enum { ATTENTION_LANES = 64, ATTENTION_LINE = 512 };

/* A tensor [batches, positions, heads, d]: elements from one to the next. */
typedef struct attention_view {
    ascend_memory memory;
    int64_t batch, row, head;
} attention_view;
attention_view attention_view_of(const tg_tensor *t);

/* What a launch gives of it: the tensor's name in the kernel's list, and the view. */
#define ATTENTION_GIVE(t, view) \
    .t = &(view).memory, .t##_batch = (view).batch, .t##_row = (view).row, .t##_head = (view).head

/* Whether the kernels of flash_attention take the queries: heads are no wider than FLASH_MOST_D. */
int attention_takes(const tg_tensor *q);

int64_t attention_up(int64_t n, int64_t step);   /* rounded up */
double attention_scale(double scale, int64_t d); /* 0: the default */
int64_t attention_half(int64_t d, int64_t rows); /* queries that a vector core has */

/* Tiles of as many keys as there are, 512 at most, and as many rows of them at a time as UB holds, of `pitch` elements at least. 0 if none fits. */
int attention_choose(ascend_plan *plan, int64_t half, int64_t pitch, int64_t keys);

#endif
