/* src/gemm/gemm_dnnl_describe.c - products and their memory as oneDNN describes them. Every
 * difference between oneDNN 2.6 and 3.x is here. */
#include "gemm_dnnl_describe.h"

/* The matrices of a call, as oneDNN describes them. */
static dnnl_status_t make_desc(const call *w, int which, dnnl_memory_desc_t *desc)
{
    const dnnl_dims_t dims[] = {{w->m, w->k}, {w->k, w->n}, {w->m, w->n}};
    const dnnl_dims_t strides[] = {{w->trans_a ? 1 : w->ld_a, w->trans_a ? w->ld_a : 1},
                                   {w->trans_b ? 1 : w->ld_b, w->trans_b ? w->ld_b : 1},
                                   {w->ld_c, 1}};
    const dnnl_data_type_t type = which == DST && w->c_type == TG_F32 ? dnnl_f32 : dnnl_bf16;
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_create_with_strides(desc, 2, dims[which], type, strides[which]);
#else
    return dnnl_memory_desc_init_by_strides(desc, 2, dims[which], type, strides[which]);
#endif
}

static void drop_desc(dnnl_memory_desc_t *desc)
{
#if DNNL_VERSION_MAJOR >= 3
    dnnl_memory_desc_destroy(*desc);
#else
    (void)desc;
#endif
}

static dnnl_status_t add_to_c(dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t ops;
    dnnl_status_t status = dnnl_post_ops_create(&ops);
    if (status != dnnl_success)
        return status;
#if DNNL_VERSION_MAJOR >= 3
    status = dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
#else
    status = dnnl_post_ops_append_sum(ops, 1);
#endif
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

/* beta as a post-operation; scratch memory is ours. */
static dnnl_status_t make_attr(float beta, dnnl_primitive_attr_t *attr)
{
    dnnl_status_t status = dnnl_primitive_attr_create(attr);
    if (status != dnnl_success)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && beta != 0)
        status = add_to_c(*attr);
    if (status != dnnl_success)
        dnnl_primitive_attr_destroy(*attr); /* no case: oneDNN does not fail here */
    return status;
}

dnnl_status_t gemm_describe(const call *w, dnnl_engine_t engine, dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_attr_t attr;
    dnnl_status_t status = make_attr(w->beta, &attr);
    if (status != dnnl_success)
        return status;
    dnnl_memory_desc_t desc[3];
    int made = 0;
    while (made < 3 && (status = make_desc(w, made, &desc[made])) == dnnl_success)
        made++;
    if (status == dnnl_success) {
#if DNNL_VERSION_MAJOR >= 3
        status = dnnl_matmul_primitive_desc_create(pd, engine, desc[SRC], desc[WEIGHTS], NULL,
                                                   desc[DST], attr);
#else
        dnnl_matmul_desc_t op;
        status = dnnl_matmul_desc_init(&op, &desc[SRC], &desc[WEIGHTS], NULL, &desc[DST]);
        if (status == dnnl_success)
            status = dnnl_primitive_desc_create(pd, &op, attr, engine, NULL);
#endif
    }
    while (made > 0)
        drop_desc(&desc[--made]);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

int64_t gemm_scratch_of(dnnl_primitive_desc_t pd)
{
#if DNNL_VERSION_MAJOR >= 3
    const_dnnl_memory_desc_t desc = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
#else
    const dnnl_memory_desc_t *desc = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
#endif
    /* no case: without one; oneDNN describes scratch of 0 bytes as well */
    return desc ? (int64_t)dnnl_memory_desc_get_size(desc) : 0;
}

dnnl_status_t gemm_describe_memory(const call *w, int which, dnnl_engine_t engine, void *data,
                                   dnnl_memory_t *memory)
{
    dnnl_memory_desc_t desc;
    dnnl_status_t status = make_desc(w, which, &desc);
    if (status != dnnl_success)
        return status;
#if DNNL_VERSION_MAJOR >= 3
    status = dnnl_memory_create(memory, desc, engine, data);
#else
    status = dnnl_memory_create(memory, &desc, engine, data);
#endif
    drop_desc(&desc);
    return status;
}

dnnl_status_t gemm_describe_scratch(int64_t bytes, dnnl_engine_t engine, void *data,
                                    dnnl_memory_t *memory)
{
    const dnnl_dims_t dims = {bytes}, strides = {1};
    dnnl_memory_desc_t desc;
#if DNNL_VERSION_MAJOR >= 3
    if (dnnl_memory_desc_create_with_strides(&desc, 1, dims, dnnl_u8, strides) != dnnl_success)
        return dnnl_out_of_memory;
    const dnnl_status_t status = dnnl_memory_create(memory, desc, engine, data);
#else
    if (dnnl_memory_desc_init_by_strides(&desc, 1, dims, dnnl_u8, strides) != dnnl_success)
        return dnnl_out_of_memory;
    const dnnl_status_t status = dnnl_memory_create(memory, &desc, engine, data);
#endif
    drop_desc(&desc);
    return status;
}
