/* Calls of forms that a context knows: sixteen of an operator are found again, whatever their order; what the check refuses
 * is refused, in the same words, however well known the form is; indices are looked at in every call. The linker wraps the
 * whole check, which a call of a known form does without. */
#include <stdint.h>

#include "../common/test.h"

tg_status __real_tg_check_all(int op, const void *args, int *device_type);
tg_status __wrap_tg_check_all(int op, const void *args, int *device_type);

static long checks;

tg_status __wrap_tg_check_all(int op, const void *args, int *device_type)
{
    checks++;
    return __real_tg_check_all(op, args, device_type);
}

enum { KNOWN = 16, MOST = 40, N = 24 };

typedef struct norm {
    int64_t shape[2], strides[2], columns, rows;
    tg_tensor x, weight, y, rstd;
    tg_rms_norm_forward_args args;
} norm;

/* With room for rows of a larger stride, and for x in the place of weight. */
static float x[MOST * (N + 1)], weight[MOST * (N + 1)], y[MOST * N], rstd[MOST];

/* The arguments of `rows` rows, all in the same memory. */
static void make(norm *n, int rows)
{
    *n = (norm){.shape = {rows, N}, .strides = {N, 1}, .columns = N, .rows = rows};
    n->x = tg_tensor_of(x, TG_F32, 2, n->shape);
    n->y = tg_tensor_of(y, TG_F32, 2, n->shape);
    n->x.strides = n->strides;
    n->weight = tg_tensor_of(weight, TG_F32, 1, &n->columns);
    n->rstd = tg_tensor_of(rstd, TG_F32, 1, &n->rows);
    n->args =
        (tg_rms_norm_forward_args){.x = &n->x, .weight = &n->weight, .y = &n->y, .rstd = &n->rstd};
}

static void call(tg_ctx *ctx, int rows)
{
    norm n;
    make(&n, rows);
    EXPECT(tg_rms_norm_forward(ctx, &n.args) == TG_OK, "%d rows: %s", rows, tg_last_error());
}

static void found_again(tg_ctx *ctx)
{
    for (int rows = 1; rows <= KNOWN; rows++)
        call(ctx, rows);
    const long before = checks;
    for (int k = 0; k < 3 * KNOWN; k++)
        call(ctx, 1 + k % KNOWN);
    EXPECT(checks == before, "in the same order: %ld are not found", checks - before);
    for (int k = 0; k < 10 * KNOWN; k++)
        call(ctx, 1 + k * k % 101 % KNOWN);
    EXPECT(checks == before, "in any order: %ld are not found", checks - before);
    call(ctx, KNOWN + 1);
    EXPECT(checks == before + 1, "a new form: %ld checks", checks - before);
    call(ctx, KNOWN + 1);
    EXPECT(checks == before + 1, "which is known then: %ld", checks - before);
    for (int k = 0; k < 3 * MOST; k++)
        call(ctx, 1 + k % MOST);
}

/* Changes of a call that passed; most make it wrong. */
static void mutate(norm *n, int how)
{
    static float elsewhere[MOST * (N + 1)];
    tg_tensor *const tensors[] = {&n->x, &n->weight, &n->y, &n->rstd};
    tg_tensor *t = tensors[how % 4];
    switch (how / 4) {
    case 0:
        t->data = NULL;
        break;
    case 1:
        t->byte_offset = 2;
        break;
    case 2:
        t->dtype.bits = 16;
        break;
    case 3:
        t->ndim++;
        break;
    case 4:
        t->ndim--;
        break;
    case 5:
        t->shape = NULL;
        break;
    case 6:
        t->shape[t->ndim - 1]++;
        break;
    case 7:
        t->shape[0] = -1;
        break;
    case 8:
        t->strides = t->strides ? NULL : t->shape;
        break;
    case 9:
        t->device.device_type = TG_DEVICE_CUDA;
        break;
    case 10:
        t->data = elsewhere;
        break;
    case 11:
        t->data = tensors[(how + 1) % 4]->data;
        break;
    case 12:
        n->strides[how % 2]++;
        break;
    default:
        ((const tg_tensor **)&n->args)[how % 4] = NULL;
        break;
    }
}

static void same_words(tg_ctx *ctx)
{
    int refused = 0;
    for (int rows = 1; rows <= MOST; rows += 3)
        for (int how = 0; how < 4 * 14; how++) {
            norm n;
            call(ctx, rows);
            make(&n, rows);
            mutate(&n, how);
            const int op = tg_op_by_name("rms_norm_forward");
            const tg_status alone = tg_check(op, &n.args);
            char text[256];
            snprintf(text, sizeof text, "%s", tg_last_error());
            EXPECT(tg_rms_norm_forward(ctx, &n.args) == alone, "%d rows, change %d: %s, not \"%s\"",
                   rows, how, tg_last_error(), alone ? text : "");
            EXPECT(alone == TG_OK || strcmp(text, tg_last_error()) == 0, "\"%s\", not \"%s\"",
                   tg_last_error(), text);
            refused += alone != TG_OK;
        }
    EXPECT(refused > 100, "%d refused: too few to mean anything", refused);
}

/* Columns beside columns overlap as far as a form can tell. They are found at the same distance, and at no other. */
static void packed(tg_ctx *ctx)
{
    enum { R = 4, F = 8 };
    static float both[R * 2 * F + 8], other[R * 2 * F], out[R * F];
    const int64_t shape[] = {R, F}, strides[] = {2 * F, 1};
    tg_tensor gate = tg_tensor_of(both, TG_F32, 2, shape), y = tg_tensor_of(out, TG_F32, 2, shape);
    gate.strides = (int64_t *)strides;
    tg_tensor up = gate, dgate = gate, dup = gate;
    const tg_swiglu_backward_args args = {
        .dy = &y, .gate = &gate, .up = &up, .dgate = &dgate, .dup = &dup};
    const int op = tg_op_by_name("swiglu_backward");
    for (int i = 0; i < 2 * F + 4; i++) {
        up.data = both + F;
        dgate.data = other;
        dup.data = other + F;
        EXPECT(tg_swiglu_backward(ctx, &args) == TG_OK, "%s", tg_last_error());
        const long before = checks;
        EXPECT(tg_swiglu_backward(ctx, &args) == TG_OK, "%s", tg_last_error());
        EXPECT(checks == before, "%ld whole checks of the same call", checks - before);
        dup.data = i < 2 * F ? other + i : both + i - 2 * F;
        if (i < 2 * F && i > F)
            continue; /* past the end of its buffer */
        const tg_status alone = tg_check(op, &args);
        EXPECT(tg_swiglu_backward(ctx, &args) == alone, "dup %d elements behind dgate: %s", i,
               tg_last_error());
        EXPECT((i == F) == (alone == TG_OK), "dup %d elements behind dgate: status %d", i, alone);
    }
}

/* Every place of every number of targets up to three vectors of eight. */
static void every_index(tg_ctx *ctx)
{
    enum { V = 5, TARGETS = 25, IGNORE = -100 };
    static float logits[TARGETS * V], loss;
    static const int64_t values[] = {-1, V, IGNORE, INT64_MIN, INT64_MAX, (int64_t)1 << 32, V - 1};
    int64_t target[TARGETS] = {0};
    const int64_t one = 1;
    tg_tensor tloss = tg_tensor_of(&loss, TG_F32, 1, &one);
    for (int n = 1; n <= TARGETS; n++) {
        const int64_t shape[] = {n, V}, count = n;
        const tg_tensor tlogits = tg_tensor_of(logits, TG_F32, 2, shape),
                        ttarget = tg_tensor_of(target, TG_I64, 1, &count);
        const tg_cross_entropy_forward_args args = {
            .logits = &tlogits, .target = &ttarget, .loss = &tloss, .ignore_index = IGNORE};
        EXPECT(tg_cross_entropy_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
        for (int i = 0; i < n * 7; i++) {
            const int64_t value = values[i % 7];
            char expected[96];
            snprintf(expected, sizeof expected, "target[%d] is %lld,", i / 7, (long long)value);
            target[i / 7] = value;
            const int valid = value == IGNORE || value == V - 1;
            const tg_status status = tg_cross_entropy_forward(ctx, &args);
            EXPECT(status == (valid ? TG_OK : TG_EINVAL), "%d targets, %s status %d", n, expected,
                   status);
            EXPECT(valid || strstr(tg_last_error(), expected), "%s, not %s", tg_last_error(),
                   expected);
            target[i / 7] = 0;
        }
    }
}

int main(void)
{
    tg_ctx *ctx = new_context();
    tg_ctx_set_threads(ctx, 1);
    tg_ctx_set_impl(ctx, "cpu");
    found_again(ctx);
    same_words(ctx);
    packed(ctx);
    every_index(ctx);
    tg_ctx_destroy(ctx);
    return report();
}
