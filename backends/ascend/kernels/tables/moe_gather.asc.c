/* moe_gather.asc.c - rows of tokens in the order of their slots, and back to tokens, weighed and
 * added; the products that are the weights' gradients.
 *
 * The scalar unit waits for slots or places, which are copied in a tile ahead, and rows follow one
 * by one, an instruction each. No element is written twice. */
#include "moe_gather.args.h"
#include "shared/asc_row_tile.h"

/* `count` numbers of 8 bytes for the scalar unit. */
static inline __aicore__ void moe_ask(__gm__ int64_t *from, int64_t count, int64_t place, int slot)
{
    asc_copy_gm2ub_align(ASC_UB(uint32_t, place, slot), (__gm__ uint32_t *)from,
                         (uint32_t)count * 8);
}

/* Of `count` numbers from i on, how many neighbours are all -1 or all others. */
static inline __aicore__ int64_t moe_run(const __ubuf__ int64_t *index, int64_t i, int64_t count)
{
    int64_t end = i + 1;
    while (end < count && (index[end] < 0) == (index[i] < 0))
        end++;
    return end - i;
}

/* Elements of dy32, x32 and the like that a tile's rows take. */
#define MOE_CLEAR(name, copies, pitch, size) \
    asc_clear_copies(name##_at, copies, tile_rows *(pitch) * (int64_t)(size))

#define ASC_TEMPLATE "tables/moe_gather.asc.h"
#include "shared/asc_each_type.h"
