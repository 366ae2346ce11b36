/* flash_attention_sums.asc.c - what stands before and behind the backward of flash_attention: the
 * sums of dy y, and the gradient of sinks of them; gradients from their parts. */
#include "flash_attention_backward.args.h"
#include "flash_shares.h"

/* What flash_attention_add is given of the problem. */
#define FLASH_PROBLEM_ROWS(f)                   \
    do {                                        \
        (f).batches = batches;                  \
        (f).heads = key_heads * shared;         \
        (f).shared = shared;                    \
        (f).queries = queries;                  \
        (f).keys = all_keys;                    \
        (f).lo = lo;                            \
        (f).hi = hi;                            \
        (f).half = core_rows;                   \
        (f).tile = keys;                        \
        (f).pitch = asc_round_up(d, ASC_LANES); \
        FLASH_PROBLEM_PACKED(f);                \
    } while (0)

#define ASC_TEMPLATE "attention/flash_attention_sums.asc.h"
#include "shared/asc_each_type.h"
