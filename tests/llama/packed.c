/* packed.c - a micro-batch of packed documents has the loss and the gradients of its documents,
 * each trained by itself.
 *
 *   llama_packed TEXT
 *
 * Lines are the documents. Sums of gradients are of f32, and in another order: the limit is 1e-5 of
 * them. Without --pack the same windows must give another loss, or the test could not tell.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples/llama/data.h"
#include "../../examples/llama/gradients.h"
#include "../../examples/llama/model.h"

static const double LIMIT = 1e-5, ACROSS = 1e-4;

static options sizes(const char *text, int64_t batch, int64_t pack)
{
    options o;
    options_preset(&o, "tiny");
    o.layers = 2;
    o.width = 64;
    o.ff = 96;
    o.batch = batch;
    o.seq = 150;
    o.accumulate = 1;
    o.pack = pack;
    o.end_of_document = pack ? '\n' : -1;
    o.data = (files){.count = 1, .path = {text}};
    return o;
}

static int64_t targets_of(const int64_t *target, int64_t count)
{
    int64_t there = 0;
    for (int64_t i = 0; i < count; i++)
        there += target[i] != -100;
    return there;
}

/* The share of one document's loss in that of `all` targets; its gradients are added to `sum`. */
static double train_apart(model *m, const windows *w, int64_t at, int64_t count, double *sum)
{
    const int64_t there = targets_of(w->target + at, count);
    if (!there)
        return 0;
    model_bind(m, (extent){1, 0, count, WHOLE});
    memcpy(m->input_data, w->in + at, (size_t)count * sizeof(*w->in));
    memcpy(m->target_data, w->target + at, (size_t)count * sizeof(*w->target));
    *m->share_data = (float)((double)there / (double)w->targets);
    model_forward(m);
    model_loss(m, 1, 0);
    model_backward(m, 0);
    for (int64_t i = 0; i < m->count; i++)
        sum[i] += (double)*model_grad(m, i);
    return (double)*model_results(m, 0) * (double)there / (double)w->targets;
}

/* |packed - sum| / |sum| of the gradients. */
static double distance(const model *m, const double *sum)
{
    double difference = 0, all = 0;
    for (int64_t i = 0; i < m->count; i++) {
        const double d = (double)*model_grad(m, i) - sum[i];
        difference += d * d;
        all += sum[i] * sum[i];
    }
    return sqrt(difference / all);
}

static double loss_of(run *r, corpus *text, const options *o, model *m)
{
    model_open(m, r, o, 1);
    data_train(text, o, 0, model_windows(m, 0));
    model_weigh(m);
    gradients_round(m, 0);
    return (double)*model_results(m, 0);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    const options packs = sizes(argv[1], 3, 1), across = sizes(argv[1], 3, 0),
                  one = sizes(argv[1], 1, 0);
    run r;
    corpus text;
    model m, other, apart;
    run_open(&r, "cpu", NULL, 2);
    data_open(&text, &packs);
    const double packed = loss_of(&r, &text, &packs, &m),
                 seen = loss_of(&r, &text, &across, &other);
    model_open(&apart, &r, &one, 1);
    const windows *w = model_windows(&m, 0);
    double *sum = calloc((size_t)m.count, sizeof(*sum)), loss = 0;
    for (int64_t d = 0; d < w->documents; d++)
        loss += train_apart(&apart, w, w->begin[d], w->begin[d + 1] - w->begin[d], sum);
    const double off = fabs(packed - loss) / loss, gradients = distance(&m, sum);
    printf("%lld documents, %lld targets: loss %.7f, apart %.7f, across %.7f; gradients differ by "
           "%.1e\n",
           (long long)w->documents, (long long)w->targets, packed, loss, seen, gradients);
    if (w->documents < 2 * packs.batch || !(off <= LIMIT) || !(gradients <= LIMIT) ||
        fabs(packed - seen) < ACROSS) {
        puts("FAILED: packed documents are not documents apart");
        return 1;
    }
    free(sum);
    run_close(&r);
    return 0;
}
