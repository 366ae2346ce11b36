/* ascend.h - what the host files of the operators share: views of tensors, launches, rows. */
#ifndef ASCEND_H
#define ASCEND_H

#include "planner.h"
#include "runtime.h"

extern const tg_host *ascend_host; /* the library's services */

#define ASCEND_TRY(call)               \
    do {                               \
        const tg_status try_ = (call); \
        if (try_ != TG_OK)             \
            return try_;               \
    } while (0)

/* A tensor as rows: leading dimensions collapsed to one stride. All zero for NULL. */
typedef struct ascend_impls {
    char *data;
    int type; /* tg_type */
    int64_t rows, n;
    int64_t stride; /* of a row, in elements */
    size_t bytes;   /* from the first to the last element */
    const char *name;
} ascend_impls;
ascend_impls ascend_rows_of(const tg_tensor *t, const char *name);

/* The rows as the kernel's argument: an address that is known to reach this far. */
static inline ascend_arg ascend_tensor(const ascend_impls *t)
{
    return ascend_memory(t->data, t->bytes, t->name);
}

/* Kernels come in one copy a type: "swiglu_forward" + "_bf16". NULL for a type without kernels. */
const char *ascend_type_suffix(int type);

/* The device that a row runs on follows from where its tensors lie: host memory is the model's.
 * TG_EUNSUPPORTED, with the error set, if that device is not in use. */
tg_status ascend_runtime_for(const tg_tensor *t, const ascend_runtime **runtime);

/* Launches kernel<suffix of type>; logs the device's time if the context is verbose. */
tg_status ascend_run(tg_ctx *ctx, const ascend_runtime *runtime, const char *kernel, int type,
                     int64_t blocks, const ascend_arg *args, int nargs);

/* The same with an array. */
#define ASCEND_RUN(ctx, runtime, kernel, type, blocks, args) \
    ascend_run(ctx, runtime, kernel, type, blocks, args, (int)(sizeof(args) / sizeof *(args)))

/* Memory of the device, its contents unknown, until the context's next call of this; for several launches of one
 * row. As a kernel's argument: ascend_memory(memory, bytes, "partials"). */
tg_status ascend_scratch(tg_ctx *ctx, const ascend_runtime *runtime, size_t bytes, void **memory);
void ascend_scratch_close(const ascend_runtime *runtime); /* at exit */

/* ---- plans ---- */

/* What the planner is asked about this device. options: TG_UB_OPTION bits. */
tg_ub_problem ascend_problem(const ascend_runtime *runtime, int64_t rows, int64_t columns, int type,
                             uint32_t options);

/* The planner's answer for this device: tiles, places of buffers, blocks.
 * TG_EUNSUPPORTED for a type without kernels. */
tg_status ascend_plan(const ascend_runtime *runtime, const tg_ub_kernel *kernel, int64_t rows,
                      int64_t columns, int type, uint32_t options, tg_ub_layout *layout);

/* The kernel's arguments `rows, columns, tile_rows, tile_columns`, of which it makes its asc_grid. */
#define ASCEND_GRID(layout, rows, columns)                                 \
    ascend_i64(rows), ascend_i64(columns), ascend_i64((layout).tile_rows), \
        ascend_i64((layout).tile_columns)

/* A buffer's place as the kernel's argument, which it reads with ASC_UB(). */
static inline ascend_arg ascend_place(const tg_ub_layout *layout, int buffer)
{
    const tg_ub_place *p = &layout->place[buffer];
    return ascend_i64(p->copy_stride << 32 | p->offset);
}

/* ---- flat.c: kernels on independent elements ---- */

enum { FLAT_TENSORS = 5, FLAT_SCALARS = 2, FLAT_PLACES = 16 };

/* A launch. The kernel's arguments: the tensors, their strides, the grid, the scalars, the places of its buffers. */
typedef struct ascend_flat {
    const char *kernel;
    const tg_ub_kernel *ub;
    uint32_t options; /* TG_UB_OPTION bits */
    int tensors, scalars, places;
    struct {
        const tg_tensor *t;
        const char *name;
    } tensor[FLAT_TENSORS];
    ascend_arg scalar[FLAT_SCALARS];
    uint8_t place[FLAT_PLACES]; /* buffers, in the order of the arguments */
} ascend_flat;
tg_status ascend_run_flat(tg_ctx *ctx, const ascend_flat *launch);

/* ---- one row table: the operators, in the order of files ---- */

tg_status ascend_rms_norm_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *args);
tg_status ascend_rms_norm_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *args);
tg_status ascend_fused_add_rms_norm_forward(tg_ctx *ctx,
                                            const tg_fused_add_rms_norm_forward_args *args);
tg_status ascend_fused_add_rms_norm_backward(tg_ctx *ctx,
                                             const tg_fused_add_rms_norm_backward_args *args);
tg_status ascend_swiglu_forward(tg_ctx *ctx, const tg_swiglu_forward_args *args);
tg_status ascend_swiglu_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args);
tg_status ascend_softmax_forward(tg_ctx *ctx, const tg_softmax_forward_args *args);
tg_status ascend_softmax_backward(tg_ctx *ctx, const tg_softmax_backward_args *args);
tg_status ascend_cross_entropy_forward(tg_ctx *ctx, const tg_cross_entropy_forward_args *args);
tg_status ascend_cross_entropy_backward(tg_ctx *ctx, const tg_cross_entropy_backward_args *args);
tg_status ascend_geglu_forward(tg_ctx *ctx, const tg_geglu_forward_args *args);
tg_status ascend_geglu_backward(tg_ctx *ctx, const tg_geglu_backward_args *args);
tg_status ascend_embedding_forward(tg_ctx *ctx, const tg_embedding_forward_args *args);
tg_status ascend_embedding_backward(tg_ctx *ctx, const tg_embedding_backward_args *args);
int ascend_embedding_backward_accepts(const tg_embedding_backward_args *args);

#endif
