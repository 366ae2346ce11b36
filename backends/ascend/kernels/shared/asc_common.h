/* asc_common.h - what every kernel needs: its tiles, its buffers in UB, rows in and out, and the
 * loop over tiles with the flags of asc_flags.h.
 *
 * The same source is compiled with the model (C11) and with CANN (C++17): no compound literals, no
 * designated initialisers. What it is given stands in its list (asc_args.h). The host has planned
 * everything: a kernel gets the size of its tiles and the places of its buffers as arguments.
 *
 * Pipes work beside each other: a copy in (MTE2), arithmetic (V) and a copy out (MTE3) wait for
 * each other only where flags say so. Instructions of V that depend on each other need
 * asc_sync_pipe(PIPE_V) between them. A kernel with two buffers for what it copies has this loop:
 *
 *   asc_pipeline_begin();
 *   for (task = block; task < grid.tasks; task += blocks, slot ^= 1) {
 *       ASC_MAY_FILL(slot);      the input buffers of two tiles ago have been read
 *       copy in
 *       ASC_HAS_FILLED(slot);    V may read them
 *       ASC_MAY_WRITE(slot);     the output buffers of two tiles ago have left
 *       compute
 *       ASC_HAS_READ(slot);      as soon as the inputs have been read
 *       ASC_HAS_WRITTEN(slot);   MTE3 may read the outputs
 *       copy out
 *       ASC_HAS_LEFT(slot);
 *   }
 *   asc_pipeline_end();
 *
 * The scalar unit runs ahead and fills the pipes' queues: tile i+1 is copied in while
 * tile i is computed. */
#ifndef ASC_COMMON_H
#define ASC_COMMON_H

#include "asc_args.h"
#include "asc_flags.h"
#include "c_api/asc_simd.h"

#ifdef __cplusplus
#define ASC_KERNEL extern "C" __global__ __vector__ void
#define ASC_CUBE_KERNEL extern "C" __global__ __cube__ void
#define ASC_MIX_KERNEL extern "C" __global__ __mix__(1, 2) void
#else
#define ASC_KERNEL __attribute__((visibility("default"))) __global__ __vector__ void
#define ASC_CUBE_KERNEL __attribute__((visibility("default"))) __global__ __cube__ void
#define ASC_MIX_KERNEL __attribute__((visibility("default"))) __global__ __mix__(1, 2) void
#endif

/* What CANN's pages leave open, the other way: see "Doubts" in backends/ascend/README.md. */
#ifndef ASC_AVOID_GAPS
#define ASC_AVOID_GAPS 0
#endif
#ifndef ASC_AVOID_WIDE_CHANNELS
#define ASC_AVOID_WIDE_CHANNELS 0
#endif
#ifndef ASC_SYNC_AT_ADDRESS
#define ASC_SYNC_AT_ADDRESS 0
#endif

/* ---- arguments ---- */

/* A float travels as its bits. */
static inline __aicore__ float asc_f32(int64_t word)
{
    union {
        uint32_t bits;
        float value;
    } v;
    v.bits = (uint32_t)word;
    return v.value;
}

/* The address of copy `slot` of a planned buffer: its offset in the low half, the distance of
 * its copies in the high.
 * asc_get_phy_buf_addr() is given nothing but constants: CANN's own code never does else. */
static inline __aicore__ uint64_t asc_place(int64_t word, int slot)
{
    return (uint64_t)asc_get_phy_buf_addr(0) + (uint32_t)word +
           (uint32_t)slot * (uint32_t)(word >> 32);
}
#define ASC_UB(T, word, slot) ((__ubuf__ T *)asc_place(word, slot))
/* A buffer of f32, of one copy, by its name. */
#define ASC_SCRATCH(name) ASC_UB(float, name##_at, 0)

/* ---- tiles ---- */

/* The work, cut: task t is the tile of row group t / column_tiles and column group
 * t % column_tiles. */
typedef struct asc_grid {
    int64_t rows, columns, tile_rows, tile_columns, column_tiles, tasks;
} asc_grid;

typedef struct asc_tile {
    int64_t row, rows, column, columns;
} asc_tile;

static inline __aicore__ int64_t asc_min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline __aicore__ int64_t asc_round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

static inline __aicore__ asc_grid asc_grid_of(int64_t rows, int64_t columns, int64_t tile_rows,
                                              int64_t tile_columns)
{
    asc_grid g;
    g.rows = rows;
    g.columns = columns;
    g.tile_rows = tile_rows;
    g.tile_columns = tile_columns;
    g.column_tiles = (columns + tile_columns - 1) / tile_columns;
    g.tasks = (rows + tile_rows - 1) / tile_rows * g.column_tiles;
    return g;
}

static inline __aicore__ asc_tile asc_tile_at(asc_grid g, int64_t task)
{
    asc_tile t;
    t.row = task / g.column_tiles * g.tile_rows;
    t.column = task % g.column_tiles * g.tile_columns;
    t.rows = asc_min_of(g.tile_rows, g.rows - t.row);
    t.columns = asc_min_of(g.tile_columns, g.columns - t.column);
    return t;
}

/* Elements from one row of a tile to the next in UB: whole blocks of 32 B in its
 * type of `size` bytes. */
static inline __aicore__ int64_t asc_pitch(asc_tile t, int64_t size)
{
    return asc_round_up(t.columns, 32 / size);
}

/* Cores of a block may signal each other from here on. sync: a mix kernel's last argument. */
static inline __aicore__ void asc_signals_begin(uint64_t sync)
{
    asc_set_ffts_base_addr(ASC_SYNC_AT_ADDRESS ? *(__gm__ uint64_t *)sync : sync);
}

/* ---- rows in and out ---- */

/* Rows of one instruction, whose gaps in GM are 32 bits of bytes; ASC_AVOID_GAPS:
 * it is given none. */
static inline __aicore__ int64_t asc_rows_at_once(int64_t bytes, int64_t stride)
{
    const int64_t gap = stride - bytes;
    if (ASC_AVOID_GAPS && gap)
        return 1;
    return gap >= 0 && gap <= (int64_t)UINT32_MAX ? 4095 : 1;
}

/* Rows of `bytes`, `stride` bytes apart in GM, to rows in UB that begin `pitch` bytes apart.
 * What fills the last block of 32 B of each becomes zeros (asc_modes_set), so that
 * arithmetic may run over it. */
static inline __aicore__ void asc_copy_rows_in(uint64_t dst, __gm__ void *src, int64_t rows,
                                               int64_t bytes, int64_t stride, int64_t pitch)
{
    if (bytes == stride && bytes == pitch) { /* one piece */
        bytes *= rows;
        rows = 1;
    }
    const int64_t filled = asc_round_up(bytes, 32), most = asc_rows_at_once(bytes, stride);
    for (int64_t r = 0; r < rows; r += most) {
        const int64_t n = asc_min_of(most, rows - r);
        asc_copy_gm2ub_align((__ubuf__ uint16_t *)(dst + (uint64_t)(r * pitch)),
                             (__gm__ uint16_t *)((__gm__ char *)src + r * stride), (uint16_t)n,
                             (uint32_t)bytes, 0, (uint8_t)((filled - bytes) / 2),
                             (uint32_t)(n > 1 ? stride - bytes : 0),
                             (uint32_t)(n > 1 ? (pitch - filled) / 32 : 0));
    }
}

static inline __aicore__ void asc_copy_rows_out(__gm__ void *dst, uint64_t src, int64_t rows,
                                                int64_t bytes, int64_t stride, int64_t pitch)
{
    if (bytes == stride && bytes == pitch) {
        bytes *= rows;
        rows = 1;
    }
    const int64_t filled = asc_round_up(bytes, 32), most = asc_rows_at_once(bytes, stride);
    for (int64_t r = 0; r < rows; r += most) {
        const int64_t n = asc_min_of(most, rows - r);
        asc_copy_ub2gm_align((__gm__ uint16_t *)((__gm__ char *)dst + r * stride),
                             (__ubuf__ uint16_t *)(src + (uint64_t)(r * pitch)), (uint16_t)n,
                             (uint32_t)bytes, 0, 0, (uint32_t)(n > 1 ? (pitch - filled) / 32 : 0),
                             (uint32_t)(n > 1 ? stride - bytes : 0));
    }
}

/* Rows in groups: `rows` of them lie `stride` apart, and groups begin `group` apart. */
typedef struct asc_groups {
    int64_t rows, group, stride;
} asc_groups;

static inline __aicore__ asc_groups asc_groups_of(int64_t rows, int64_t group, int64_t stride)
{
    asc_groups g;
    g.rows = rows;
    g.group = group;
    g.stride = stride;
    return g;
}

static inline __aicore__ int64_t asc_row_at(asc_groups g, int64_t row)
{
    return row / g.rows * g.group + row % g.rows * g.stride;
}

/* From `row` on, how many of `rows` lie in its group. */
static inline __aicore__ int64_t asc_rows_of_group(asc_groups g, int64_t row, int64_t rows)
{
    return asc_min_of(rows, g.rows - row % g.rows);
}

/* A tile of a tensor of T with `stride` elements a row. */
#define ASC_LOAD(T, place, slot, tensor, stride, tile)                                         \
    asc_copy_rows_in(asc_place(place, slot), (tensor) + (tile).row * (stride) + (tile).column, \
                     (tile).rows, (tile).columns * (int64_t)sizeof(T),                         \
                     (stride) * (int64_t)sizeof(T),                                            \
                     asc_pitch(tile, sizeof(T)) * (int64_t)sizeof(T))
#define ASC_STORE(T, tensor, stride, tile, place, slot)                                         \
    asc_copy_rows_out((tensor) + (tile).row * (stride) + (tile).column, asc_place(place, slot), \
                      (tile).rows, (tile).columns * (int64_t)sizeof(T),                         \
                      (stride) * (int64_t)sizeof(T),                                            \
                      asc_pitch(tile, sizeof(T)) * (int64_t)sizeof(T))

/* ---- modes ---- */

/* CTRL's bit 48: half overflows to infinity and keeps NaN, as training with a scaled loss needs,
 * instead of 65504 and 0. */
#define ASC_CTRL_INFINITY ((int64_t)1 << 48)

/* The modes that a kernel expects. */
static inline __aicore__ void asc_modes_set(void)
{
    asc_init();
    asc_set_ctrl(asc_get_ctrl() | ASC_CTRL_INFINITY);
    asc_set_copy_pad_val((uint16_t)0);
}

static inline __aicore__ void asc_modes_clear(void)
{
    asc_set_ctrl(asc_get_ctrl() & ~ASC_CTRL_INFINITY);
}

/* Modes as the kernel expects them; all buffers are free. */
static inline __aicore__ void asc_pipeline_begin(void)
{
    asc_modes_set();
    ASC_BUFFERS(asc_sync_notify, PIPE_V);
}

/* No flag and no mode stays set: it would be the next kernel's. */
static inline __aicore__ void asc_pipeline_end(void)
{
    ASC_BUFFERS(asc_sync_wait, PIPE_V);
    asc_modes_clear();
}

/* What asc_pipeline.asc.h is about: a tile of whole rows, or a piece of wider ones. */
typedef struct asc_piece {
    int64_t row, rows, column, columns;
    int64_t pitch; /* elements from a row to the next in UB */
    uint32_t n;    /* elements of all rows */
    int slot,
        turn; /* copies of its buffers, and of those that belong to the rows of all their pieces */
    int first, last, whole; /* of the pieces of its rows; it is the only one */
    int64_t group;          /* that its rows are of */
    int begins, ends; /* its rows are the first, or the last, that this block has of the group */
    int sums, writes; /* what is to be done */
} asc_piece;

/* A step of such a kernel. */
#define ASC_STEP(name, LIST) \
    static inline __aicore__ void ASC_NAME(name)(const asc_piece *p, ASC_PARAMS(LIST))

/* The same where what is copied out lies in a buffer that was copied in: MTE2
 * waits for MTE3 then. */
static inline __aicore__ void asc_in_place_begin(void)
{
    asc_modes_set();
    ASC_BUFFERS(asc_sync_notify, PIPE_MTE2);
}

static inline __aicore__ void asc_in_place_end(void)
{
    ASC_BUFFERS(asc_sync_wait, PIPE_MTE2);
    asc_modes_clear();
}

#endif
