/* ascend.h - what the host files of the operators share: tensors as memory, plans, memory
 * between launches. */
#ifndef ASCEND_H
#define ASCEND_H

#include "launch.h"

extern const tg_host *ascend_host; /* the library's services */

#define ASCEND_TRY(call)               \
    do {                               \
        const tg_status try_ = (call); \
        if (try_ != TG_OK)             \
            return try_;               \
    } while (0)

/* tg_planes_of() as kernels take it: `rows` of a group, at least 1, and groups that begin
 * `stride` elements apart. */
typedef struct ascend_groups {
    int64_t rows, stride;
} ascend_groups;
ascend_groups ascend_groups_of(const tg_tensor *t);

/* A tensor's type as kernels/shared/asc_any.args.h has it. */
int64_t ascend_any(const tg_tensor *t);

/* A compact tensor as memory; any other, from its first to its last element. {NULL, 0} for NULL. */
ascend_memory ascend_memory_of(const tg_tensor *t);

/* to = from, rows of any strides, in another type. */
tg_status ascend_convert(tg_ctx *ctx, const tg_tensor *from, const tg_tensor *to);

/* ---- plans ---- */

/* Begins a plan: a problem on the device where a tensor lies. Host memory is the model's.
 * TG_EUNSUPPORTED, with the error set, if that device is not in use. options: TG_UB_OPTION bits. */
tg_status ascend_begin(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *where,
                       int64_t rows, int64_t columns, int type, uint32_t options);
/* The same, of the rows of a tensor. */
tg_status ascend_begin_rows(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x,
                            uint32_t options);
/* The planner's tile. TG_ENOMEM: none fits. */
tg_status ascend_choose(ascend_plan *plan);
/* What a file that looks for tiles of its own, with ascend_fits(), returns when none does. */
tg_status ascend_no_room(const ascend_plan *plan);
/* This tile; 1 if it fits. */
int ascend_fits(ascend_plan *plan, int64_t tile_rows, int64_t tile_columns);

/* The most whole rows, a multiple of `step`, that fit; 0: not `step` of them do. */
int64_t ascend_most_rows(ascend_plan *plan, int64_t step);

/* Gives each block neighbouring rows, as many as it returns, and takes away blocks without any. */
int64_t ascend_share_rows(ascend_plan *plan);

/* The plan of a kernel that goes through its rows twice in pieces (kernels/shared/asc_ring.h). They
 * are cut so that a row stays in the ring between the two, with at least one buffer left for the
 * next row, if that fits; *again is 0 then. Else a row is copied in twice, in pieces as the planner
 * cuts them, and *again is 1. */
tg_status ascend_choose_ring(ascend_plan *plan, int64_t *again);

/* The planner's entry of a kernel on independent elements (kernels/shared/asc_flat.asc.h). */
#define ASCEND_FLAT(kernel)                                        \
    {                                                              \
        .name = #kernel ".flat", ASCEND_BUFFERS(kernel), .flat = 1 \
    }

/* The same where two operands are neighbours in one tensor (kernels/shared/asc_pairs.asc.h). */
#define ASCEND_PAIRS(kernel)                                                      \
    {                                                                             \
        .name = #kernel, ASCEND_BUFFERS(kernel), .flat = 1, .column_multiple = 16 \
    }

/* The planner's entry of a kernel on short rows (kernels/shared/asc_short.asc.h). Its plan is of
 * the transposed problem, a row for each column of the data: a tile has all of them, and a multiple
 * of 64 rows of the data, of which each is a lane. */
#define ASCEND_SHORT(title, kernel) ASCEND_SHORT_BUT(title, kernel, 0)
#define ASCEND_SHORT_BUT(title, kernel, last)                                              \
    {                                                                                      \
        .name = title, ASCEND_BUFFERS_BUT(kernel, last), .flat = 1, .column_multiple = 64, \
        .max_rows = 64, .max_columns = 1984                                                \
    }
/* Plans it for tensors of one shape, of which all but the first may be absent. *is_short is 0 where
 * it is not for them: rows are too long for it, or have gaps between them. */
#define ASCEND_CHOOSE_SHORT(plan, ub, options, is_short, ...)                                 \
    ascend_choose_short(plan, ub, options, is_short, (const tg_tensor *const[]){__VA_ARGS__}, \
                        ASCEND_HOW_MANY(__VA_ARGS__))
tg_status ascend_choose_short(ascend_plan *plan, const tg_ub_kernel *ub, uint32_t options,
                              int *is_short, const tg_tensor *const *tensors, int ntensors);

/* Two tensors that are the halves of one without gaps, as its memory; {NULL, 0} if they are not. */
ascend_memory ascend_whole_of(const tg_tensor *left, const tg_tensor *right);
/* Plans a kernel whose short rows are such `whole` ones (kernels/shared/asc_halves.asc.h), with
 * `one` of half the columns: a half of a row would be a copy of its own. */
tg_status ascend_choose_halves(ascend_plan *plan, const tg_ub_kernel *ub, uint32_t options,
                               const tg_tensor *one, const ascend_memory *whole, int *is_short);

/* The lanes of such a plan, a multiple of `step`, itself one of 64: as many as fit; fewer, for as
 * many tiles in each block, and for two of them. 0: not `step` of them fit. */
int ascend_choose_lanes(ascend_plan *plan, int64_t step);

/* Whether a row that is copied in twice may be written while the next one is read, as
 * asc_ring_behind() has it: whether each core's two rows of `in` bytes, and the `out` bytes that
 * are written meanwhile, find room in L2, with some left. */
int ascend_ring_behind(const ascend_plan *plan, int64_t in, int64_t out);

/* ---- memory between launches ---- */

/* Memory of the device, its contents unknown, for the launches of one call. */
tg_status ascend_scratch(tg_ctx *ctx, size_t bytes, void **memory);

/* Gradients of parameters: each block sums its rows' contributions in memory of its own, f32, and a
 * second launch adds the blocks' sums in their order. */
typedef struct ascend_partial_sums {
    ascend_memory memory;
    int64_t count;  /* of blocks, each a row */
    int64_t stride; /* of rows, in elements */
} ascend_partial_sums;

/* Memory for `count` sums of n elements; none for 0. */
tg_status ascend_partials(tg_ctx *ctx, int64_t count, int64_t n, ascend_partial_sums *partials);

/* result = their sum, 0 if there are none; accumulate: + result as it was. */
tg_status ascend_sum_partials(tg_ctx *ctx, const ascend_partial_sums *partials,
                              const tg_tensor *result, int64_t accumulate);

/* ---- work beside other work: see side.h ---- */

tg_status ascend_side(tg_ctx *ctx, tg_side_step step);
/* The side that a context has, which ends with it: the one slot of both devices, of
 * the card's table. */
/* What is kept of a context, from its first use here on; NULL, with the error set: no memory. */
typedef struct ascend_state {
    int32_t card;      /* that the context works on */
    struct side *side; /* from its first side on */
    void *faults;      /* indices.h: memory of faults_card */
    int32_t faults_card;
    int64_t tickets; /* of launches that look at indices */
    int looked;      /* whether there was one since tg_sync() */
} ascend_state;
ascend_state *ascend_state_of(tg_ctx *ctx);
/* Before work that is put on the stream otherwise than by a launch: in a side, the launches that it
 * has so far are made. */
tg_status ascend_side_so_far(tg_ctx *ctx);

/* ---- the operators ---- */

/* What a family's file has: the table of what its kernels keep in UB, which ends with {0}, and
 * each operator that it runs, by a function ascend_<operator>(), of these element types; of an
 * operator that it takes IF ascend_<operator>_accepts() says so. CMake makes the tables of
 * backend.c from these lines. */
#define ASCEND_KERNELS(family) const tg_ub_kernel ascend_ub_##family[]
#define ASCEND_OPERATOR(op, takes) tg_status ascend_##op(tg_ctx *ctx, const tg_##op##_args *args)
#define ASCEND_OPERATOR_IF(op, takes) \
    ASCEND_OPERATOR(op, takes);       \
    int ascend_##op##_accepts(const tg_##op##_args *args)

/* The function of an operator that is one kernel on independent elements and has no options. Its
 * table's entry, and each tensor by its name: .x = args->x, .y = args->y. */
#define ASCEND_FLAT_OPERATOR(op, ub, ...)                          \
    tg_status ascend_##op(tg_ctx *ctx, const tg_##op##_args *args) \
    {                                                              \
        return ASCEND_RUN_FLAT(ctx, ub, 0, op, __VA_ARGS__);       \
    }

/* Called by `gemm`. */
tg_status ascend_sum_rows_forward(tg_ctx *ctx, const tg_sum_rows_forward_args *args);
/* By `mhc_coeffs`. */
tg_status ascend_gemm(tg_ctx *ctx, const tg_gemm_args *args);
/* By `multi_token_attention`. */
tg_status ascend_softmax_forward(tg_ctx *ctx, const tg_softmax_forward_args *args);
tg_status ascend_softmax_backward(tg_ctx *ctx, const tg_softmax_backward_args *args);
tg_status ascend_sparsemax_forward(tg_ctx *ctx, const tg_sparsemax_forward_args *args);
tg_status ascend_sparsemax_backward(tg_ctx *ctx, const tg_sparsemax_backward_args *args);

/* CANN's own product, on a card alone. */
tg_status ascend_gemm_aclnn(tg_ctx *ctx, const tg_gemm_args *args);
int ascend_gemm_aclnn_accepts(const tg_gemm_args *args);

#endif
