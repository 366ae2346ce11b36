/* asc_product.h - small products on the cube core of a mix kernel: what a core keeps of where it
 * is. asc_product.asc.h multiplies.
 *
 * A product's sides are at most ASC_SIDE; along k it goes in steps of 256 bytes (of 16 bits; 64
 * elements of f32). An operand of a step is a tile of 32 KiB at most. Tiles come to a ring of
 * pairs in L1, are loaded to the halves of L0A and L0B, and the results go out of the halves of
 * L0C; the unit flag lets a copy out run beside the next product. The scalar unit runs ahead, so
 * that tiles come as early as the pipes' queues allow. L1 has room for 15 tiles; behind the ring
 * an operand that many products read may be held there. Each pair, and each operand that is
 * held, has an event of its own. */
#ifndef ASC_PRODUCT_H
#define ASC_PRODUCT_H

#include "shared/asc_ring.h"

enum { ASC_SIDE = 128, ASC_TILE_BYTES = 32768, ASC_EVENTS = 8 };

typedef struct asc_products {
    int pairs;         /* of tiles, in the ring */
    int pair, l0, l0c; /* what is next */
} asc_products;

/* An operand: `turned` if its rows in global memory run along the product's side and not along k.
 * held: the tile of L1 where its first step's is held, the others behind it, or -1. Rows lie
 * `stride` apart; with a group, so many of them do, and groups begin `step` apart. */
typedef struct asc_operand {
    int64_t stride, turned, held, group, step;
} asc_operand;

static inline __aicore__ asc_operand asc_operand_of(int64_t stride, int64_t turned, int64_t held)
{
    asc_operand o;
    o.stride = stride;
    o.turned = turned;
    o.held = held;
    o.group = o.step = 0;
    return o;
}

/* Its rows, of which a product takes whole groups, as asc_common.h has them; not turned. */
static inline __aicore__ asc_operand asc_operand_in_groups(asc_groups rows, int64_t held)
{
    asc_operand o = asc_operand_of(rows.stride, 0, held);
    o.group = rows.rows;
    o.step = rows.group;
    return o;
}

/* All of L1 and both halves of L0 are free: op tells so, or waits for it. */
#define ASC_PRODUCT_BUFFERS(op)                       \
    for (int set = 0; set < ASC_EVENTS; set++)        \
        ASC_RING_FLAG(op, PIPE_MTE1, PIPE_MTE2, set); \
    op(PIPE_M, PIPE_MTE1, EVENT_ID0);                 \
    op(PIPE_M, PIPE_MTE1, EVENT_ID1)

static inline __aicore__ asc_products asc_products_begin(int pairs)
{
    asc_products p;
    p.pairs = pairs;
    p.pair = p.l0 = p.l0c = 0;
    asc_set_ctrl(asc_get_ctrl() | ASC_CTRL_INFINITY);
    asc_set_mmad_direction_n(); /* as the copies out read it, row by row */
    asc_set_l0c_copy_params(1, 0, 0);
    ASC_PRODUCT_BUFFERS(asc_sync_notify);
    return p;
}

static inline __aicore__ void asc_products_end(void)
{
    ASC_PRODUCT_BUFFERS(asc_sync_wait);
    asc_set_mmad_direction_m();
    asc_modes_clear();
}

/* Offset of a tile in L1. */
static inline __aicore__ uint64_t asc_l1_tile(int64_t tile)
{
    return (uint64_t)(tile * ASC_TILE_BYTES);
}

#endif
