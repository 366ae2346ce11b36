/* optimizer.c - clipping, schedule, AdamW. */
#include "optimizer.h"

#include <math.h>

/* Of parameters from `start` on, as many as lie in one piece. */
static tg_tensor gradients(const model *m, int64_t start, const int64_t *count)
{
    return tensor_at(m->r, model_grad(m, start), TG_F32, 1, count);
}

void gradient_squares(model *m)
{
    const int64_t tables[1] = {m->tables}, others[1] = {m->count - m->tables};
    tg_tensor first = gradients(m, 0, tables), rest = gradients(m, m->tables, others);
    CALL(m->r, sum_squares_forward, .x = &first, .y = &m->squares.t);
    CALL(m->r, sum_squares_forward, .x = &rest, .y = &m->squares.t, .accumulate = 1);
}

double learning_rate(const options *o, int64_t step)
{
    if (step <= o->warmup)
        return o->lr * (double)step / (double)o->warmup;
    const int64_t left = o->steps - o->warmup;
    const double part = left > 0 ? (double)(step - o->warmup) / (double)left : 1;
    return o->min_lr + (o->lr - o->min_lr) * 0.5 * (1 + cos(3.14159265358979324 * part));
}

static void update(model *m, int64_t start, int64_t end, int64_t step, double decay)
{
    const options *o = m->o;
    const int64_t n[1] = {end - start};
    char *at = m->param + start * (int64_t)tg_type_size(m->type);
    tg_tensor param = tensor_at(m->r, at, m->type, 1, n);
    tg_tensor grad = gradients(m, start, n);
    tg_tensor first = tensor_at(m->r, m->m + start, TG_F32, 1, n);
    tg_tensor second = tensor_at(m->r, m->v + start, TG_F32, 1, n);
    tg_tensor master = tensor_at(m->r, m->master + (m->master ? start : 0), TG_F32, 1, n);
    CALL(m->r, adamw, .param = &param, .master = m->master ? &master : NULL, .grad = &grad,
         .m = &first, .v = &second, .lr = learning_rate(o, step), .beta1 = TG_VALUE(o->beta1),
         .beta2 = TG_VALUE(o->beta2), .weight_decay = decay, .grad_squares = &m->squares.t,
         .max_norm = o->clip, .step = step);
}

void optimizer_step(model *m, int64_t step)
{
    update(m, 0, m->tables, step, m->o->weight_decay);
    update(m, m->tables, m->decayed, step, m->o->weight_decay);
    update(m, m->decayed, m->count, step, 0);
}
