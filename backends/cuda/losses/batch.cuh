/* batch.cuh - a loss of rows of logits that are a part of a batch's: the host's side of what
 * softmax_jsd and softmax_kl_div have alike. */
#ifndef CUDA_BATCH_CUH
#define CUDA_BATCH_CUH

#include "losses/batch_rows.cuh"
#include "losses/divergence.cuh"

/* What both directions of both losses are given. */
struct batch_call {
    divergence_call of; /* op, labels, dloss, loss, and how they are reduced */
    double temperature, grad_scale;
    int64_t first_row, batch_rows;
};

template <class ARGS> static batch_call batch_call_of(const char *op, const ARGS *args)
{
    batch_call c = {};
    c.of.op = op;
    c.of.labels = args->labels;
    c.of.dloss = args->dloss;
    c.of.ignore_index = args->ignore_index;
    c.temperature = args->temperature;
    c.grad_scale = args->grad_scale;
    c.first_row = args->first_row;
    c.batch_rows = args->batch_rows;
    return c;
}

/* What kernels are told of it, for rows of logits like these. */
static void batch_begin(const batch_call &c, const tg_tensor *logits, batch_args *a)
{
    a->rows = rows_of(logits);
    a->n = (int)width_of(logits);
    a->dloss = (const float *)data_of(c.of.dloss);
    a->ignore_index = c.of.ignore_index;
    a->unit = (float)(c.grad_scale / c.temperature);
}

/* Memory for `most` sums of losses, and what a row counts, which the device finds where rows may be
 * ignored. */
static double *batch_shares(const cuda_call &call, const batch_call &c, int64_t most, batch_args *a)
{
    const int64_t rows = c.batch_rows ? c.batch_rows : a->rows;
    double *memory = (double *)cuda_host->device_workspace(call.ctx, (size_t)(most + 1) * 8), base;
    if (!memory)
        return NULL;
    a->share = divergence_share_of(&c.of, rows, a->n, &base);
    a->partial = c.of.loss ? memory : NULL;
    if (!c.of.labels)
        return memory;
    const int64_t *labels = (const int64_t *)data_of(c.of.labels);
    a->labels = labels + c.first_row;
    if (c.of.reduction != TG_SUM) {
        a->counted = memory + most;
        divergence_share<<<1, TOTAL_THREADS, 0, call.stream>>>(memory + most, labels, rows,
                                                               a->ignore_index, base);
    }
    return memory;
}

static void batch_total(const cuda_call &call, const batch_call &c, const batch_args &a,
                        const double *sums, int64_t count)
{
    if (c.of.loss)
        launch_behind(call, divergence_total, 1, TOTAL_THREADS, (float *)data_of(c.of.loss), sums,
                      count, a.counted, a.share);
}

#endif
