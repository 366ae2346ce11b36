/* optimizer.c - clipping, schedule, AdamW. */
#include "optimizer.h"

#include <math.h>
#include <stdlib.h>

enum { CHUNK = 1 << 16, LANES = 16, SHORT = 512 };

typedef struct norm_task {
    const float *grad;
    double *sums; /* one a chunk */
} norm_task;

/* Short sums in f32 over lanes, which vectorise; their sum in double. */
static double sum_of_squares(const float *x, int64_t n)
{
    double sum = 0;
    int64_t i = 0;
    for (; i + SHORT <= n; i += SHORT) {
        float lane[LANES] = {0};
        for (int k = 0; k < SHORT; k += LANES)
            for (int j = 0; j < LANES; j++)
                lane[j] += x[i + k + j] * x[i + k + j];
        for (int j = 0; j < LANES; j++)
            sum += (double)lane[j];
    }
    for (; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

static void norm_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    const norm_task *t = arg;
    (void)worker;
    t->sums[begin / CHUNK] = sum_of_squares(t->grad + begin, end - begin);
}

double gradient_norm(model *m)
{
    const double begin = now();
    const int64_t chunks = (m->count + CHUNK - 1) / CHUNK;
    double *sums = malloc((size_t)chunks * sizeof(*sums));
    if (!sums)
        die("out of memory");
    from_device(m->r, m->grad, (size_t)m->count * sizeof(*m->grad));
    norm_task task = {m->grad, sums};
    tg_parallel_for(m->r->ctx, m->count, CHUNK, norm_chunk, &task);
    double sum = 0;
    for (int64_t i = 0; i < chunks; i++)
        sum += sums[i];
    free(sums);
    run_book(m->r, "gradient norm", "llama", now() - begin);
    return sqrt(sum);
}

double learning_rate(const options *o, int64_t step)
{
    if (step <= o->warmup)
        return o->lr * (double)step / (double)o->warmup;
    const int64_t left = o->steps - o->warmup;
    const double part = left > 0 ? (double)(step - o->warmup) / (double)left : 1;
    return o->min_lr + (o->lr - o->min_lr) * 0.5 * (1 + cos(3.14159265358979324 * part));
}

static void update(model *m, int64_t start, int64_t end, int64_t step, double scale, double decay)
{
    const options *o = m->o;
    const int64_t n[1] = {end - start};
    char *at = m->param + start * (int64_t)tg_type_size(m->type);
    tg_tensor param = tensor_at(m->r, at, m->type, 1, n);
    tg_tensor grad = tensor_at(m->r, m->grad + start, TG_F32, 1, n);
    tg_tensor first = tensor_at(m->r, m->m + start, TG_F32, 1, n);
    tg_tensor second = tensor_at(m->r, m->v + start, TG_F32, 1, n);
    tg_tensor master = tensor_at(m->r, m->master + (m->master ? start : 0), TG_F32, 1, n);
    CALL(m->r, adamw, .param = &param, .master = m->master ? &master : NULL, .grad = &grad,
         .m = &first, .v = &second, .lr = learning_rate(o, step), .beta1 = TG_VALUE(o->beta1),
         .beta2 = TG_VALUE(o->beta2), .weight_decay = decay, .grad_scale = TG_VALUE(scale),
         .step = step);
}

void optimizer_step(model *m, int64_t step, double norm)
{
    const double clip = m->o->clip;
    const double scale = clip > 0 && norm > clip ? clip / norm : 1;
    update(m, 0, m->decayed, step, scale, m->o->weight_decay);
    update(m, m->decayed, m->count, step, scale, 0);
}
