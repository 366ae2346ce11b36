/* terms.h - losses that are computed term by term (kernels/losses/terms.asc.h): what the host sides
 * of kl_div, tvd and jsd share. */
#ifndef ASCEND_TERMS_H
#define ASCEND_TERMS_H

#include "ascend.h"
#include "kernels/losses/terms.args.h"

/* A call of either direction; backward has no loss. */
typedef struct terms_call {
    const tg_tensor *x, *y, *d, *labels, *dloss,
        *loss; /* d: the gradient with respect to x, like x */
    int64_t ignore_index, reduction;
    double term; /* what the sum of the kernel's terms, and what each of them, is multiplied by */
    int64_t variant;
    double parameter;
    uint32_t options; /* the family's own */
} terms_call;

/* Between the launches: parts of the blocks, as many as there are cores at most. */
typedef struct terms_parts {
    ascend_memory counts, sums;
    int64_t count_blocks; /* 0: nothing was counted */
} terms_parts;

tg_status ascend_begin_parts(tg_ctx *ctx, int cores, terms_parts *p);
/* How many labels are not ignore_index. */
tg_status ascend_count_labels(tg_ctx *ctx, const tg_tensor *labels, int64_t ignore_index,
                              terms_parts *p);
/* loss = scale, over what was counted, times the sum of `blocks` parts. */
tg_status ascend_terms_total(tg_ctx *ctx, const tg_tensor *loss, const terms_parts *p,
                             int64_t blocks, double scale);

/* Kernels of terms.asc.h: a loss's own list has more buffers, and nothing else. */
ASCEND_FAMILY(terms, TERMS_GIVEN);
tg_status ascend_terms(tg_ctx *ctx, const tg_ub_kernel *ub, const terms_alike *kernel,
                       const terms_call *call);

/* What the planner is told of such a kernel. 255 rows are what one instruction takes. */
extern const char *const ascend_terms_options[];
#define TERMS_KERNEL(title, kernel)                                                \
    {                                                                              \
        .name = title ".flat", ASCEND_BUFFERS(kernel), .flat = 1, .max_rows = 255, \
        .column_multiple = 64, .option = ascend_terms_options                      \
    }

#endif
