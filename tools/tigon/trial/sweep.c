/* tools/tigon/trial/sweep.c - cases with other sizes and strides: widths odd, prime, about
 * powers of two and wider than any cache or UB. For `tigon check --sweep`, and the sweep of
 * the Ascend kernels. */
#include <stdio.h>
#include <string.h>

#include "share/text.h"
#include "trial.h"

enum { WIDEST = 1 << 18, MOST_ROWS = 400, MOST_DIMENSIONS = 4, TRIES = 256 };
enum { MOST_ELEMENTS = 1 << 22 }; /* of a tensor: one that has two widths may come out far larger */

/* ---- random numbers ---- */

typedef struct dice {
    uint64_t state;
} dice;

static int64_t below(dice *d, int64_t n)
{
    return (int64_t)(random_next(&d->state) % (uint64_t)n);
}

/* 1 ... most; as many between 1 and 2 as between 1000 and 2000. */
static int64_t any_size(dice *d, int64_t most)
{
    int doublings = 0;
    while (most >> (doublings + 1))
        doublings++;
    const int64_t low = (int64_t)1 << below(d, doublings + 1);
    const int64_t n = low + below(d, low);
    return n < most ? n : most;
}

static int is_prime(int64_t n)
{
    for (int64_t k = 2; k * k <= n; k++)
        if (n % k == 0)
            return 0;
    return n > 1;
}

static int64_t prime(int64_t n)
{
    while (!is_prime(n))
        n++;
    return n;
}

static int64_t width(dice *d, int64_t elements)
{
    switch (below(d, 16)) {
    case 0: /* wider than any UB */
        return WIDEST / 4 + below(d, 3 * WIDEST / 4);
    case 1:
    case 2:
    case 3:
        return 1 + below(d, 100);
    case 4:
    case 5:
    case 6: /* about a power of two */
        return ((int64_t)2 << below(d, 15)) + below(d, 3) - 1;
    case 7:
    case 8:
    case 9:
    case 10:
        return prime(any_size(d, elements));
    case 11:
    case 12: /* whole repeats of f32 */
        return 64 * (1 + below(d, 128));
    default:
        return any_size(d, elements);
    }
}

static int64_t rows(dice *d, int64_t width, int64_t elements)
{
    int64_t most = elements / width;
    if (most > MOST_ROWS)
        most = MOST_ROWS;
    if (most < 2)
        return 1 + below(d, 2);
    return below(d, 3) ? any_size(d, most) : 1 + below(d, most);
}

/* ---- dimensions: capital names that a case sets ---- */

typedef struct dimensions {
    int n;
    char name[MOST_DIMENSIONS][PB_NAME];
    int is_width[MOST_DIMENSIONS];
} dimensions;

/* Of the data: the last dimension of a tensor of numbers for rows, such as lse, counts rows. */
int check_is_width(const pb_op *op, const char *name)
{
    for (int i = 0; i < op->ntensors; i++) {
        const pb_decl *d = &op->tensor[i];
        if (d->symbol && pb_has_columns(d, name))
            return 1;
    }
    return 0;
}

static void dimensions_of(const pb_op *op, const pb_case *c, dimensions *to)
{
    to->n = 0;
    for (int i = 0; i < c->ntokens && to->n < MOST_DIMENSIONS; i++)
        if (pb_is_dimension(&c->token[i])) {
            snprintf(to->name[to->n], PB_NAME, "%s", c->token[i].name);
            to->is_width[to->n++] = check_is_width(op, c->token[i].name);
        }
}

/* Cases of given shapes stay out: other dimensions would contradict them. So do those that are kept
 * for the CPU: what is drawn is the same on all devices. */
static int is_free(const pb_op *op, const pb_case *c)
{
    if (!pb_case_is_for(op, c) || c->bench || pb_case_flag(c, "cpu"))
        return 0;
    for (int i = 0; i < c->ntokens; i++)
        if (c->token[i].kind == PB_SHAPE)
            return 0;
    return 1;
}

static const pb_case *any_case(const catalogue *cat, const pb_op *op, dice *d)
{
    int n = 0;
    for (int i = 0; i < cat->ncases; i++)
        n += is_free(op, &cat->cases[i]);
    int64_t left = n ? below(d, n) : -1;
    for (int i = 0; n && i < cat->ncases; i++)
        if (is_free(op, &cat->cases[i]) && left-- == 0)
            return &cat->cases[i];
    return NULL;
}

/* ---- cases ---- */

/* Of four dimensions three stay as a case has them where they go with each other. */
static int stays(dice *d, int together)
{
    return together && below(d, 4) > 0;
}

/* The case's text, and behind it what overrides its dimensions and strides. */
static void write_case(const pb_op *op, const pb_case *from, dice *d, int64_t elements,
                       int together, char *text, size_t size)
{
    dimensions dims;
    int64_t widest = 0;
    snprintf(text, size, "%s", from->text);
    dimensions_of(op, from, &dims);
    for (int i = 0; i < dims.n; i++)
        if (dims.is_width[i] && !stays(d, together)) {
            const int64_t w = width(d, elements);
            widest = w > widest ? w : widest;
            text_add(text, size, " %s=%lld", dims.name[i], (long long)w);
        }
    int64_t so_far =
        widest ? widest : 1; /* elements of a tensor that has the dimensions up to here */
    for (int i = 0; i < dims.n; i++)
        if (!dims.is_width[i] && !stays(d, together)) {
            const int64_t n = rows(d, so_far, elements);
            so_far *= n;
            text_add(text, size, " %s=%lld", dims.name[i], (long long)n);
        }
    if (below(d, 2))
        text_add(text, size, " pad=%lld", (long long)below(d, 40));
    if (below(d, 3) == 0)
        text_add(text, size, " offset=%lld", (long long)below(d, 9));
}

problem *check_shapes(const catalogue *cat, const pb_op *op, const pb_case *c, int type,
                      char *error)
{
    return problem_create(cat, op, c, &(pb_options){.type = type, .seed = 1, .hollow = 1}, error);
}

int check_takes(const problem *p)
{
    return p && !tg_check(p->op->id, problem_args(p));
}

static problem *shapes_of(const catalogue *cat, const pb_op *op, const pb_case *c, char *error)
{
    return check_shapes(cat, op, c, pb_case_takes(c, TG_F32) ? TG_F32 : TG_BF16, error);
}

static int is_small(const catalogue *cat, const pb_op *op, const pb_case *c, char *error)
{
    problem *p = shapes_of(cat, op, c, error);
    int small = p != NULL;
    for (int i = 0; p && i < op->ntensors; i++)
        small = small && (!p->tensor[i].present || tg_numel(&p->tensor[i].view) <= MOST_ELEMENTS);
    problem_free(p);
    return small;
}

static int takes_case(const catalogue *cat, const pb_op *op, const pb_case *c, char *error)
{
    problem *p = shapes_of(cat, op, c, error);
    const int takes = check_takes(p);
    problem_free(p);
    return takes;
}

/* A backward's case must be one of the forward's, which saves tensors for it. */
int check_is_legal(const catalogue *cat, const pb_op *op, const pb_case *c, char *error)
{
    int legal = takes_case(cat, op, c, error);
    for (int i = 0; legal && strstr(op->info->name, "_backward") && i < cat->nops; i++)
        if (pb_same_group(cat->ops[i].group, op->group) && &cat->ops[i] != op)
            legal = takes_case(cat, &cat->ops[i], c, error);
    return legal;
}

int check_draw(const catalogue *cat, const pb_op *op, uint64_t seed, int64_t index,
               int64_t elements, pb_case *c, char *error)
{
    dice d = {seed};
    d.state = random_next(&d.state) + (uint64_t)index;
    d.state = random_next(&d.state);
    for (int i = 0; i < TRIES; i++) { /* what a case says elsewhere may not go with the sizes */
        char text[2 * PB_TEXT];
        const pb_case *from = any_case(cat, op, &d);
        if (!from)
            break;
        write_case(op, from, &d, elements, i >= TRIES / 2, text, sizeof text);
        if (pb_case_parse(cat, op->group, text, c, error))
            return -1;
        if (is_small(cat, op, c, error) && check_is_legal(cat, op, c, error))
            return 0;
    }
    snprintf(error, PB_ERROR, "%s: no legal case in %d draws", op->info->name, TRIES);
    return -1;
}

/* --quick runs it in the smallest of its types. */
static int is_quick(const catalogue *cat, const pb_op *op, const pb_case *c, char *error)
{
    problem *p = check_shapes(cat, op, c, pb_case_takes(c, TG_BF16) ? TG_BF16 : TG_F32, error);
    const int quick = p && problem_memory(p) <= QUICK_BYTES;
    problem_free(p);
    return quick;
}

/* Case i of the sweep. What is too large for --quick is drawn again, a sweep further on: so no
 * other draw changes. */
static int draw_one(const catalogue *cat, const pb_op *op, const check_settings *s, int64_t i,
                    pb_case *c, char *error)
{
    for (int64_t k = 0; k < TRIES; k++)
        if (check_draw(cat, op, (uint64_t)s->seed, i + k * s->sweep, CHECK_ELEMENTS, c, error))
            return -1;
        else if (!s->quick || is_quick(cat, op, c, error))
            break;
    return 0;
}

int check_sweep(const catalogue *cat, const pb_op *op, const check_settings *s, check_case_fn fn,
                void *arg, char *error)
{
    for (int64_t i = 0; i < s->sweep; i++) {
        pb_case c;
        if (draw_one(cat, op, s, i, &c, error))
            return -1;
        fn(arg, &c);
    }
    return 0;
}
