/* asc_calls.h - what the macros of asc_simd.h expand to: types of a kernel, and the model's entry
 * points.
 *
 * A kernel includes asc_simd.h, never this. `types` packs the type of dst (bits 0-3) and src (bits
 * 4-7) and, where an operation has them, a rounding, a comparison or a form of reduction (bits
 * 8-11). Strides, repeats and counts come in wider than the instruction's fields, so that the model
 * sees a value that does not fit. */
#ifndef ASC_CALLS_H
#define ASC_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#define ASC_CALL __attribute__((visibility("default")))

typedef _Float16 half;
typedef struct bfloat16_t {
    uint16_t bits;
} bfloat16_t;

/* Where a call stands. name: "asc_add". */
typedef struct asc_site {
    const char *file;
    int line;
    const char *name;
} asc_site;

typedef enum asc_op {
#define SIM_OP(name, ...) ASC_OP_##name,
#include "asc_ops.inc"
#undef SIM_OP
    ASC_OPS
} asc_op;

typedef enum asc_type {
    ASC_HALF,
    ASC_FLOAT,
    ASC_BF16,
    ASC_I8,
    ASC_U8,
    ASC_I16,
    ASC_U16,
    ASC_I32,
    ASC_U32,
    ASC_I64,
    ASC_TYPE_COUNT
} asc_type;

/* How a conversion rounds: to nearest even, to nearest away from zero, down, up, to zero, to odd;
 * EXACT: the conversion has one result, or its default rounding. */
typedef enum asc_round { ASC_RN, ASC_RNA, ASC_RD, ASC_RU, ASC_RZ, ASC_RO, ASC_EXACT } asc_round;

typedef enum asc_comparison { ASC_EQ, ASC_NE, ASC_GT, ASC_GE, ASC_LT, ASC_LE } asc_comparison;
typedef enum asc_reduction {
    ASC_VALUE_INDEX,
    ASC_INDEX_VALUE,
    ASC_ONLY_VALUE,
    ASC_ONLY_INDEX
} asc_reduction;
typedef enum asc_atomic {
    ASC_ATOMIC_NONE,
    ASC_ATOMIC_ADD,
    ASC_ATOMIC_MAX,
    ASC_ATOMIC_MIN
} asc_atomic;

typedef enum pipe_t {
    PIPE_S,
    PIPE_V,
    PIPE_MTE2,
    PIPE_MTE3,
    PIPE_MTE1,
    PIPE_M,
    PIPE_FIX,
    PIPE_ALL
} pipe_t;
typedef enum event_t {
    EVENT_ID0,
    EVENT_ID1,
    EVENT_ID2,
    EVENT_ID3,
    EVENT_ID4,
    EVENT_ID5,
    EVENT_ID6,
    EVENT_ID7
} event_t;

#define ASC_TYPES(dst, src) ((unsigned)(dst) | (unsigned)(src) << 4)
#define ASC_WITH(extra) ((unsigned)(extra) << 8)

/* Element by element: src0 and src1 NULL where the operation has none. */
ASC_CALL void asc_issue_vector(const asc_site *site, asc_op op, unsigned types, void *dst,
                               void *src0, void *src1, uint32_t value, int64_t count);
ASC_CALL void asc_issue_vector_repeat(const asc_site *site, asc_op op, unsigned types, void *dst,
                                      void *src0, void *src1, uint32_t value, int64_t repeat,
                                      int64_t dst_block, int64_t src0_block, int64_t src1_block,
                                      int64_t dst_repeat, int64_t src0_repeat, int64_t src1_repeat);
/* repeat_reduce_*, datablock_reduce_*, pair_reduce_sum */
ASC_CALL void asc_issue_reduction(const asc_site *site, asc_op op, unsigned types, void *dst,
                                  void *src, int64_t count);
ASC_CALL void asc_issue_reduction_repeat(const asc_site *site, asc_op op, unsigned types, void *dst,
                                         void *src, int64_t repeat, int64_t dst_repeat,
                                         int64_t src_block, int64_t src_repeat);
/* dst NULL: into the comparison mask. src1 NULL: with `value`. */
ASC_CALL void asc_issue_compare(const asc_site *site, asc_op op, unsigned types, void *dst,
                                void *src0, void *src1, uint32_t value, int64_t repeat,
                                int64_t dst_block, int64_t src0_block, int64_t src1_block,
                                int64_t dst_repeat, int64_t src0_repeat, int64_t src1_repeat);
ASC_CALL void asc_issue_cmp_mask(const asc_site *site, asc_op op, void *ub);
ASC_CALL void asc_issue_brcb(const asc_site *site, unsigned types, void *dst, void *src,
                             int64_t dst_block, int64_t dst_repeat, int64_t repeat);
ASC_CALL void asc_issue_gather(const asc_site *site, unsigned types, void *dst, void *src,
                               uint32_t *offsets, int64_t count);
ASC_CALL void asc_issue_gather_repeat(const asc_site *site, unsigned types, void *dst, void *src,
                                      uint32_t *offsets, int64_t dst_repeat, int64_t repeat);
ASC_CALL void asc_issue_gather_datablock(const asc_site *site, unsigned types, void *dst, void *src,
                                         uint32_t *offsets, int64_t dst_repeat, int64_t dst_block,
                                         int64_t repeat);
/* asc_reduce: compaction by a pattern, or by the bits of src1. */
ASC_CALL void asc_issue_compact(const asc_site *site, unsigned types, void *dst, void *src0,
                                void *src1, int64_t count);
ASC_CALL void asc_issue_compact_repeat(const asc_site *site, unsigned types, void *dst, void *src0,
                                       void *src1, int64_t repeat, int64_t src0_block,
                                       int64_t pattern, int64_t src0_repeat, int64_t src1_repeat);
ASC_CALL void asc_issue_transpose(const asc_site *site, unsigned types, void *dst, void *src);
ASC_CALL void asc_issue_bitsort(const asc_site *site, unsigned types, void *dst, void *scores,
                                uint32_t *index, int64_t repeat);
ASC_CALL void asc_issue_mrgsort4(const asc_site *site, unsigned types, void *dst,
                                 void *const src[4], int64_t repeat, int64_t length0,
                                 int64_t length1, int64_t length2, int64_t length3,
                                 bool stop_when_exhausted, int64_t valid);

/* Copies of n_burst pieces. GM is walked in bytes, UB in blocks of 32 B; `element` 0: the plain
 * form, which moves whole blocks and whose length and gaps are all in blocks. */
ASC_CALL void asc_issue_copy(const asc_site *site, asc_op op, int element, void *dst, void *src,
                             int64_t n_burst, int64_t len_burst, int64_t left, int64_t right,
                             int64_t src_gap, int64_t dst_gap);
/* The simple plain form: whole blocks of `size` bytes, the rest is dropped. */
ASC_CALL void asc_issue_copy_size(const asc_site *site, asc_op op, void *dst, void *src,
                                  int64_t size);

/* The cube core. asc_issue_copy_blocks: as asc_issue_copy in blocks of 32 B. `element`: bytes, and
 * the type above bit 8. */
ASC_CALL void asc_issue_copy_blocks(const asc_site *site, asc_op op, unsigned element, void *dst,
                                    void *src, int64_t n_burst, int64_t len_burst, int64_t src_gap,
                                    int64_t dst_gap);
ASC_CALL void asc_issue_fractals(const asc_site *site, asc_op op, unsigned element, void *dst,
                                 void *src, int64_t index, int64_t repeat, int64_t src_stride,
                                 int64_t dst_gap);
ASC_CALL void asc_issue_transposed(const asc_site *site, asc_op op, unsigned types, void *dst,
                                   void *src, int64_t index, int64_t repeat, int64_t src_stride,
                                   int64_t dst_gap, int64_t decrement, int64_t dst_frac_gap);
/* rest: strides, filter, dilation (w, h each), two size bits, transpose, f_matrix_ctrl */
ASC_CALL void asc_issue_load3d(const asc_site *site, unsigned types, void *dst, void *src,
                               int64_t k_extension, int64_t m_extension, int64_t k_start,
                               int64_t m_start, const int64_t rest[10], int64_t channels);
ASC_CALL void asc_issue_nd2nz(const asc_site *site, unsigned types, void *dst, void *src,
                              int64_t matrices, int64_t rows, int64_t columns,
                              int64_t src_matrix_stride, int64_t src_row_stride, int64_t c0_stride,
                              int64_t row_stride, int64_t matrix_stride);
ASC_CALL void asc_issue_bias(const asc_site *site, uint64_t dst, void *src, int64_t convert,
                             int64_t n_burst, int64_t len_burst, int64_t src_gap, int64_t dst_gap);
ASC_CALL void asc_issue_fill(const asc_site *site, asc_op op, unsigned type, void *dst,
                             uint32_t value, uint64_t config);
ASC_CALL void asc_issue_mmad(const asc_site *site, unsigned types, void *c, void *a, void *b,
                             int64_t m, int64_t k, int64_t n, int64_t unit_flag, int64_t k_align,
                             int64_t source, int64_t init);
ASC_CALL void asc_issue_fix(const asc_site *site, asc_op op, unsigned types, void *dst, void *src,
                            int64_t n, int64_t m, int64_t dst_stride, int64_t src_stride,
                            int64_t unit_flag, int64_t quant, int64_t relu, int64_t split,
                            int64_t nz2nd);
typedef enum asc_cube_register {
    ASC_CUBE_ND,
    ASC_CUBE_QUANT,
    ASC_CUBE_CONFIG,
    ASC_CUBE_ALPHA,
    ASC_CUBE_IMAGE,
    ASC_CUBE_PADDING,
    ASC_CUBE_REPEAT,
    ASC_CUBE_REGISTERS
} asc_cube_register;
ASC_CALL void asc_issue_set_cube(const asc_site *site, asc_cube_register which, uint64_t value);
ASC_CALL uint64_t asc_issue_get_cube(const asc_site *site, asc_cube_register which);

/* Flags between cores; mode: 0 all of a kind, 1 the vector cores of a block, 2 a cube core and its
 * vector cores. */
ASC_CALL void asc_issue_arrive(const asc_site *site, int mode, pipe_t pipe, int64_t id);
ASC_CALL void asc_issue_await(const asc_site *site, pipe_t pipe, int64_t id);
ASC_CALL void asc_issue_set_ffts(const asc_site *site, uint64_t address);
ASC_CALL int asc_issue_is_cube(const asc_site *site);
ASC_CALL int64_t asc_issue_sub_block(const asc_site *site, int count); /* count: how many */
/* The code from `from` to `to` is of kernels whose blocks are so many cores; scheduler: a mix
 * kernel. From hooks.c. */
ASC_CALL void asc_kernels(const void *from, const void *to, int cubes, int vectors, int scheduler);

ASC_CALL void asc_issue_flag(const asc_site *site, asc_op op, pipe_t pipe, pipe_t target,
                             int64_t event);
ASC_CALL void asc_issue_barrier(const asc_site *site, pipe_t pipe);
/* Flags from `pipe` to the two pipes that work with what it moved, and a barrier of its own. */
ASC_CALL void asc_issue_sync_copy(const asc_site *site, pipe_t pipe, int64_t event);

/* The scalar unit. */
ASC_CALL void asc_issue_init(const asc_site *site);
ASC_CALL void asc_issue_set_mask(const asc_site *site, uint64_t high, uint64_t low);
ASC_CALL void asc_issue_set_ctrl(const asc_site *site, uint64_t ctrl);
ASC_CALL uint64_t asc_issue_get_ctrl(const asc_site *site);
ASC_CALL void asc_issue_set_ctrl_bit(const asc_site *site, int bit, int value);
ASC_CALL void asc_issue_set_atomic(const asc_site *site, asc_atomic kind, asc_type type);
ASC_CALL void asc_issue_set_pad(const asc_site *site, uint32_t bits);
ASC_CALL void asc_issue_data_barrier(const asc_site *site);
ASC_CALL void asc_issue_dcci(const asc_site *site, void *line); /* NULL: all lines */
ASC_CALL uint32_t asc_issue_reduced(const asc_site *site, int min, unsigned type, uint32_t *index);
ASC_CALL int64_t asc_issue_rsvd_count(const asc_site *site);
ASC_CALL int64_t asc_issue_accumulated(const asc_site *site);
ASC_CALL void asc_issue_merged(const asc_site *site, uint16_t counts[4]);
ASC_CALL int64_t asc_issue_block_index(const asc_site *site);
ASC_CALL int64_t asc_issue_block_count(const asc_site *site);
ASC_CALL int64_t asc_issue_core_index(const asc_site *site);
ASC_CALL int64_t asc_issue_cycle(const asc_site *site);
ASC_CALL uint64_t asc_issue_ub_address(const asc_site *site, uint64_t offset);

/* The kernel's own loads and stores, from hooks.c. */
ASC_CALL void asc_touch(const void *address, uint32_t bytes, int write, const void *pc);

/* A scalar operand as its bits; each converts as an argument of that type does. */
static inline uint32_t asc_bits_half(half value)
{
    uint16_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline uint32_t asc_bits_float(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline uint32_t asc_bits_bf16(bfloat16_t value)
{
    return value.bits;
}
static inline uint32_t asc_bits_i8(int8_t value)
{
    return (uint8_t)value;
}
static inline uint32_t asc_bits_i16(int16_t value)
{
    return (uint16_t)value;
}
static inline uint32_t asc_bits_i32(int32_t value)
{
    return (uint32_t)value;
}
static inline uint32_t asc_bits_u32(uint32_t value)
{
    return value;
}
static inline uint32_t asc_bits_u16(uint16_t value)
{
    return value;
}

#endif
