/* softmax_logp: slices of a vocabulary together are the whole, by the rules of its manual: in
 * log-probabilities, entropies and gradients. */
#include <math.h>

#include "slices.h"

enum { ROWS = 6, IDS = 3 };
static int64_t rows = ROWS, few = IDS, each = ROWS * IDS, strides[2] = {VOCAB, 1};
static int64_t target[ROWS] = {0, 12, 13, 39, -100, 20}, ids[IDS] = {13, 39, 5};
static float logits[ROWS * VOCAB], dlogp[ROWS], dentropy[ROWS], dselected[ROWS * IDS];

/* What a call gives, and the gradients that follow. */
typedef struct results {
    float logp[ROWS], lse[ROWS], entropy[ROWS], selected[ROWS * IDS], dlogits[ROWS * VOCAB];
} results;

static tg_tensor floats(float *data, int64_t *n)
{
    return tg_tensor_of(data, TG_F32, 1, n);
}

/* Both directions of classes [first, first + n), of so many; backward by the whole's lse and
 * entropy. */
static void run(tg_ctx *ctx, int64_t first, int64_t n, int64_t all, int backward, results *of,
                results *whole)
{
    int64_t shape[2] = {ROWS, n};
    tg_tensor x = tg_tensor_of(logits + first, TG_F32, 2, shape),
              dx = tg_tensor_of(of->dlogits + first, TG_F32, 2, shape),
              y = tg_tensor_of(target, TG_I64, 1, &rows),
              classes = tg_tensor_of(ids, TG_I64, 1, &few), logp = floats(of->logp, &rows),
              lse = floats(of->lse, &rows), entropy = floats(of->entropy, &rows),
              selected = floats(of->selected, &each), all_lse = floats(whole->lse, &rows),
              all_entropy = floats(whole->entropy, &rows), d = floats(dlogp, &rows),
              h = floats(dentropy, &rows), u = floats(dselected, &each);
    x.strides = dx.strides = strides;
    const tg_status status =
        backward
            ? tg_softmax_logp_backward(ctx,
                                       &(tg_softmax_logp_backward_args){.logits = &x,
                                                                        .target = &y,
                                                                        .selected_ids = &classes,
                                                                        .lse = &all_lse,
                                                                        .entropy = &all_entropy,
                                                                        .dlogp = &d,
                                                                        .dentropy = &h,
                                                                        .dselected = &u,
                                                                        .dlogits = &dx,
                                                                        .softcap = 5,
                                                                        .temperature = 0.7,
                                                                        .vocab_start = first,
                                                                        .vocab_size = all})
            : tg_softmax_logp_forward(ctx, &(tg_softmax_logp_forward_args){.logits = &x,
                                                                           .target = &y,
                                                                           .selected_ids = &classes,
                                                                           .logp = &logp,
                                                                           .lse = &lse,
                                                                           .entropy = &entropy,
                                                                           .selected = &selected,
                                                                           .softcap = 5,
                                                                           .temperature = 0.7,
                                                                           .vocab_start = first,
                                                                           .vocab_size = all});
    EXPECT(!status, "%s", tg_last_error());
}

/* The rules: lse = log sum exp(lse_s), logp = sum logp_s - lse, entropy = sum w_s (entropy_s + lse
 * - lse_s) with w_s = exp(lse_s - lse). */
static void combine(const results *s, results *to)
{
    for (int r = 0; r < ROWS; r++) {
        double sum = 0, logp = 0, entropy = 0, selected[IDS] = {0};
        const int ignored = target[r] == -100;
        for (int i = 0; i < SLICES; i++) {
            sum += exp((double)s[i].lse[r]);
            logp += (double)s[i].logp[r];
            for (int k = 0; k < IDS; k++)
                selected[k] += (double)s[i].selected[r * IDS + k];
        }
        const double lse = log(sum);
        for (int i = 0; i < SLICES; i++) {
            const double above = lse - (double)s[i].lse[r];
            entropy += exp(-above) * ((double)s[i].entropy[r] + above);
        }
        to->lse[r] = ignored ? 0 : (float)lse;
        to->logp[r] = ignored ? 0 : (float)(logp - lse);
        to->entropy[r] = ignored ? 0 : (float)entropy;
        for (int k = 0; k < IDS; k++)
            to->selected[r * IDS + k] = ignored ? 0 : (float)(selected[k] - lse);
    }
}

static void compare(const char *impl)
{
    static results whole, together, s[SLICES];
    tg_ctx *ctx = new_context();
    EXPECT(!tg_ctx_set_impl(ctx, impl), "%s", tg_last_error());
    for (int backward = 0; backward < 2; backward++) {
        run(ctx, 0, VOCAB, 0, backward, &whole, &whole);
        for (int i = 0; i < SLICES; i++)
            run(ctx, bounds[i], bounds[i + 1] - bounds[i], VOCAB, backward,
                backward ? &together : &s[i], &together);
        if (!backward)
            combine(s, &together);
    }
    near_to(impl, "logp", together.logp, whole.logp, ROWS, 4e-6f);
    near_to(impl, "lse", together.lse, whole.lse, ROWS, 4e-6f);
    near_to(impl, "entropy", together.entropy, whole.entropy, ROWS, 4e-6f);
    near_to(impl, "selected", together.selected, whole.selected, ROWS * IDS, 4e-6f);
    near_to(impl, "dlogits", together.dlogits, whole.dlogits, ROWS * VOCAB, 4e-6f);
    tg_ctx_destroy(ctx);
}

int main(void)
{
    fill(logits, ROWS * VOCAB, 6);
    fill(dlogp, ROWS, 1);
    fill(dentropy, ROWS, 1);
    fill(dselected, ROWS * IDS, 1);
    compare("ref");
    compare("cpu");
    return report();
}
