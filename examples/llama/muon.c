/* muon.c - the matrices of the layers by Muon.
 *
 * A matrix is one of Hugging Face's, such as q_proj, and those of one kind in all layers are equal:
 * they are orthogonalised in batches. Each rank has the momentum of its slices of them (shards.h),
 * and so their part of the batch. The ranks give each other these parts, all of them orthogonalise
 * all matrices, which gives the same bits, and each updates its slices. */
#include "muon.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gradients.h"
#include "ranks/cards.h"
#include "ranks/ranks.h"

typedef struct batch {
    model *m;
    double lr;
    int64_t first;    /* element of the first layer's matrix among all parameters */
    int64_t distance; /* elements from a layer to the next */
    int64_t rows, columns, count;
    int64_t matrix; /* the one that is worked on */
} batch;

int muon_is_used(const options *o)
{
    return !strcmp(o->optimizer, "muon");
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Layers whose matrices are one batch: few enough for the memory, and enough to fill a device. */
static int64_t layers_of_batch(const model *m, int64_t elements)
{
    enum { HOST = 1 << 23, DEVICE = 1 << 26 };
    const int64_t most = (is_apart(m->r) ? DEVICE : HOST) / elements;
    return smaller(m->o->layers, larger(most, 1));
}

/* The first layer's j-th matrix of each kind; 0 behind the last. */
static int first_matrix(const model *m, int *j, part *p)
{
    for (; *j < model_layer_parts(m); ++*j)
        if (model_part(m, 1 + *j, p) && p->ndim == 2)
            return 1;
    return 0;
}

void muon_open(model *m)
{
    part p;
    int64_t most = 0;
    for (int j = 0; first_matrix(m, &j, &p); j++)
        most = larger(most, layers_of_batch(m, part_elements(&p)) * part_elements(&p));
    m->update = take_activations(m->r, (size_t)most * tg_type_size(m->type));
    m->direction = take_activations(m->r, (size_t)most * tg_type_size(m->type));
}

/* ---- what a rank has of a matrix ---- */

static int64_t elements_of(const batch *b)
{
    return b->rows * b->columns;
}

/* The matrix among all parameters. */
static int64_t parameters_at(const batch *b)
{
    return b->first + b->matrix * b->distance;
}

/* n elements of the matrix in a buffer of the batch. */
static tg_tensor in_batch(const batch *b, const char *buffer, int64_t offset, const int64_t *n)
{
    const model *m = b->m;
    const int64_t at = b->matrix * elements_of(b) + offset;
    return tensor_at(m->r, buffer + at * (int64_t)tg_type_size(m->type), m->type, 1, n);
}

static void take_momentum(void *user, int64_t offset, int64_t place, int64_t count)
{
    const batch *b = user;
    model *m = b->m;
    const int64_t n[1] = {count};
    const float *from = gradients_at(m, parameters_at(b) + offset, place);
    tg_tensor grad = tensor_at(m->r, from, TG_F32, 1, n);
    tg_tensor momentum = tensor_at(m->r, m->m + place, TG_F32, 1, n);
    tg_tensor update = in_batch(b, m->update, offset, n);
    CALL(m->r, muon_momentum, .grad = &grad, .m = &momentum, .update = &update,
         .grad_squares = &m->squares.t, .max_norm = m->o->clip);
}

static void make_step(void *user, int64_t offset, int64_t place, int64_t count)
{
    const batch *b = user;
    model *m = b->m;
    const int64_t n[1] = {count}, at = parameters_at(b) + offset;
    const char *to = m->param + at * (int64_t)tg_type_size(m->type);
    tg_tensor param = tensor_at(m->r, to, m->type, 1, n);
    tg_tensor master = tensor_at(m->r, m->master + (m->master ? place : 0), TG_F32, 1, n);
    tg_tensor update = in_batch(b, m->direction, offset, n);
    /* as large as AdamW's, so that its learning rate serves */
    const double factor = 0.2 * sqrt((double)larger(b->rows, b->columns));
    CALL(m->r, muon_update, .param = &param, .master = m->master ? &master : NULL,
         .update = &update, .lr = b->lr, .weight_decay = m->o->weight_decay, .factor = factor,
         .grad_squares = &m->squares.t);
}

/* Calls back with what this rank keeps of each matrix. */
static void each_part(batch *b, void (*each)(void *user, int64_t offset, int64_t place, int64_t n))
{
    for (b->matrix = 0; b->matrix < b->count; b->matrix++)
        shards_each(&b->m->shards, parameters_at(b), elements_of(b), each, b);
}

/* ---- whole matrices ---- */

/* The elements of a matrix that the ranks have in a bucket, from the matrix's first. */
static int cut_bucket(const batch *b, const bucket *k, int ranks, int *counts, int *starts)
{
    const int64_t at = parameters_at(b), end = at + elements_of(b);
    int sum = 0;
    for (int r = 0; r < ranks; r++) {
        const int64_t begin = k->at + k->starts[r];
        const int64_t from = smaller(larger(at, begin), end);
        const int64_t to = smaller(end, begin + k->counts[r]);
        starts[r] = (int)(from - at);
        counts[r] = (int)larger(to - from, 0);
        sum += counts[r];
    }
    return sum;
}

/* The ranks give each other their parts of a matrix, bucket by bucket. */
static void share_matrix(const batch *b, transfers *t, int *lists)
{
    const model *m = b->m;
    const shards *s = &m->shards;
    const size_t el = tg_type_size(m->type);
    char *to = m->update + (size_t)(b->matrix * elements_of(b)) * el;
    for (int i = 0; i < s->count; i++) {
        int *counts = lists + 2 * i * s->ranks, *starts = counts + s->ranks;
        if (!cut_bucket(b, &s->buckets[i], s->ranks, counts, starts))
            continue;
        if (is_apart(m->r))
            cards_share(on_device(m->r, to), counts, starts, el);
        else
            ranks_share(t, to, counts, starts, el);
    }
}

static void share(batch *b)
{
    const model *m = b->m;
    const shards *s = &m->shards;
    transfers *t = is_apart(m->r) ? NULL : ranks_transfers(s->count);
    int *lists = malloc((size_t)(2 * s->count * s->ranks) * sizeof(*lists));
    if (!lists)
        die("out of memory");
    for (b->matrix = 0; b->matrix < b->count; b->matrix++) {
        if (!t)
            cards_begin(tg_ctx_stream(m->r->ctx));
        share_matrix(b, t, lists);
        if (t)
            ranks_wait(t);
        else
            cards_end();
    }
    if (!t)
        cards_join(tg_ctx_stream(m->r->ctx));
    free(lists);
    free(t);
}

static void orthogonalise(const batch *b)
{
    const model *m = b->m;
    const int64_t shape[3] = {b->count, b->rows, b->columns};
    tg_tensor x = tensor_at(m->r, m->update, m->type, 3, shape);
    tg_tensor y = tensor_at(m->r, m->direction, m->type, 3, shape);
    CALL(m->r, newton_schulz, .x = &x, .y = &y);
}

void muon_step(model *m, double lr)
{
    const int64_t layers = m->o->layers, distance = (m->decayed - m->tables) / layers;
    part p;
    for (int j = 0; first_matrix(m, &j, &p); j++) {
        const int64_t together = layers_of_batch(m, part_elements(&p));
        for (int64_t i = 0; i < layers; i += together) {
            batch b = {.m = m,
                       .lr = lr,
                       .first = p.offset + i * distance,
                       .distance = distance,
                       .rows = p.shape[0],
                       .columns = p.shape[1],
                       .count = smaller(together, layers - i)};
            each_part(&b, take_momentum);
            if (m->shards.ranks > 1)
                share(&b);
            orthogonalise(&b);
            each_part(&b, make_step);
        }
    }
}
