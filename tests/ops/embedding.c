/* embedding: an index out of range is an error that names it, before anything is written; rows that
 * no index names become zero, or keep their bits when gradients accumulate. */
#include "../common/test.h"

enum { V = 5, D = 3, N = 4 };

static float weight[V * D], y[N * D], dweight[V * D];
static int64_t index_data[N] = {1, 4, 1, 0};
static int64_t table[] = {V, D}, looked_up[] = {N, D}, count[] = {N};

static void refused(tg_ctx *ctx, int position, int64_t value)
{
    tg_tensor w = tg_tensor_of(weight, TG_F32, 2, table), t = tg_tensor_of(y, TG_F32, 2, looked_up);
    tg_tensor dw = tg_tensor_of(dweight, TG_F32, 2, table);
    tg_tensor indices = tg_tensor_of(index_data, TG_I64, 1, count);
    const int64_t kept = index_data[position];
    char expected[200];
    index_data[position] = value;
    for (int i = 0; i < N * D; i++)
        y[i] = 7.0f;
    for (int i = 0; i < V * D; i++)
        dweight[i] = 7.0f;
    EXPECT(tg_embedding_forward(ctx, &(tg_embedding_forward_args){&w, &indices, &t}) == TG_EINVAL,
           "index %lld", (long long)value);
    snprintf(expected, sizeof expected,
             "embedding_forward: indices[%d] is %lld, out of bounds: expected in [0, 5)", position,
             (long long)value);
    EXPECT(strcmp(tg_last_error(), expected) == 0, "%s", tg_last_error());
    EXPECT(tg_embedding_backward(ctx, &(tg_embedding_backward_args){&t, &indices, &dw, 0}) ==
               TG_EINVAL,
           "index %lld", (long long)value);
    for (int i = 0; i < N * D; i++)
        EXPECT(y[i] == 7.0f, "y[%d] is written", i);
    for (int i = 0; i < V * D; i++)
        EXPECT(dweight[i] == 7.0f, "dweight[%d] is written", i);
    index_data[position] = kept;
}

static void untouched(tg_ctx *ctx, int accumulate)
{
    tg_tensor t = tg_tensor_of(y, TG_F32, 2, looked_up),
              dw = tg_tensor_of(dweight, TG_F32, 2, table);
    tg_tensor indices = tg_tensor_of(index_data, TG_I64, 1, count);
    for (int i = 0; i < N * D; i++)
        y[i] = (float)(i / D + 1);
    for (int i = 0; i < V * D; i++)
        dweight[i] = -0.0f;
    const tg_embedding_backward_args args = {&t, &indices, &dw, accumulate};
    EXPECT(tg_embedding_backward(ctx, &args) == TG_OK, "%s", tg_last_error());
    static const float sums[V] = {4, 1 + 3, 0, 0, 2};
    for (int i = 0; i < V * D; i++) {
        EXPECT(dweight[i] == sums[i / D], "dweight[%d] is %g", i, (double)dweight[i]);
        unsigned bits;
        memcpy(&bits, &dweight[i], sizeof bits);
        EXPECT(sums[i / D] != 0 || bits == (accumulate ? 0x80000000u : 0u), "bits %x", bits);
    }
}

/* Vectors of indices are looked through at once: none of any number of them gets past, in a call of
 * a form that passed. */
static void any_number(tg_ctx *ctx)
{
    enum { MOST = 75 };
    static const int64_t wrong[] = {V, -1, INT64_C(1) << 32, -(INT64_C(1) << 32), INT64_MAX};
    int64_t data[MOST];
    float out[MOST];
    for (int i = 0; i < MOST; i++)
        data[i] = i % V;
    for (int n = 1; n <= MOST; n++) {
        int64_t shape[] = {n, 1}, narrow[] = {V, 1};
        tg_tensor w = tg_tensor_of(weight, TG_F32, 2, narrow),
                  t = tg_tensor_of(out, TG_F32, 2, shape);
        tg_tensor indices = tg_tensor_of(data, TG_I64, 1, shape);
        const tg_embedding_forward_args args = {&w, &indices, &t};
        EXPECT(tg_embedding_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
        for (int i = 0; i < n; i++)
            for (int k = 0; k < 5; k++) {
                const int64_t kept = data[i];
                char expected[80];
                data[i] = wrong[k];
                snprintf(expected, sizeof expected, "indices[%d] is %lld,", i, (long long)wrong[k]);
                EXPECT(tg_embedding_forward(ctx, &args) == TG_EINVAL, "%s", expected);
                EXPECT(strstr(tg_last_error(), expected), "%s", tg_last_error());
                data[i] = kept;
            }
    }
}

int main(void)
{
    tg_ctx *ctx = new_context();
    refused(ctx, 0, V);
    refused(ctx, 1, -1);
    refused(ctx, 2, INT64_MIN);
    refused(ctx, 3, INT64_MAX);
    any_number(ctx);
    untouched(ctx, 0);
    untouched(ctx, 1);
    tg_ctx_destroy(ctx);
    return report();
}
