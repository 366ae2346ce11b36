/* tools/tigon/problem/layout.c - shapes, strides and buffers of a problem, and
 * its argument struct. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

enum { ALIGNMENT = 64 };

static const tg_arg_info *argument(const problem *p, const pb_tensor *t)
{
    return &p->op->info->args[t->decl->slot];
}

/* 1 if tensors that are updated in place are only written: accumulate, or beta, is an option and 0.
 */
static int overwrites(const problem *p)
{
    static const char *const names[] = {"accumulate", "beta"};
    for (int i = 0; i < 2; i++)
        if (pb_option(p->op->info, names[i]))
            return pb_case_value(p->c, names[i]) == 0;
    return 0;
}

static int element_type(const problem *p, const pb_decl *d)
{
    if (p->type == TG_F64)
        return pb_is_integer(d) ? d->type : TG_F64;
    const pb_token *t = pb_token_of(p->c, PB_TYPE, d->name);
    if (t && tg_type_by_name(t->value))
        return tg_type_by_name(t->value);
    return d->symbol ? pb_type_of_symbol(p->c, d->symbol, p->type) : d->type;
}

static int set_shape(problem *p, pb_tensor *t, char *error)
{
    const pb_decl *d = t->decl;
    const pb_token *token = pb_token_of(p->c, PB_SHAPE, d->name);
    const pb_scope scope = {p->op, p->c, p->type};
    double limit = 0;
    t->view.ndim = pb_scope_shape(&scope, token ? token->value : d->shape, t->shape, error);
    if (t->view.ndim < 0 ||
        (d->limit[0] && pb_eval(d->limit, pb_scope_lookup, &scope, &limit, error)))
        return -1;
    t->limit = (int64_t)limit;
    return 0;
}

/* 1 if the case repeats the tensor along dimension i. */
static int is_expanded(const problem *p, const pb_tensor *t, int i)
{
    const pb_token *token = pb_token_of(p->c, PB_EXPAND, t->decl->name);
    for (const char *at = token ? token->value : ""; *at; at += strcspn(at, ","), at += *at == ',')
        if (atoi(at) == i)
            return 1;
    return 0;
}

/* Row-major strides with `pad` more elements behind each row, `cols` wide, and what the case leaves
 * out or repeats, unless plain. Returns the elements that all of it takes. */
static int64_t set_strides(const problem *p, pb_tensor *t, int64_t cols, int64_t pad, int plain)
{
    const pb_token *slice = plain ? NULL : pb_token_of(p->c, PB_SLICE, t->decl->name);
    int64_t stride = 1;
    for (int i = t->view.ndim - 1; i >= 0; i--) {
        const int last = i == t->view.ndim - 1;
        const int64_t left_out = slice && i == 1 ? atoi(slice->value) : 0;
        const int64_t size = (last ? cols : t->shape[i]) + left_out;
        const int expanded = !plain && is_expanded(p, t, i);
        t->strides[i] = expanded ? 0 : stride;
        stride = stride * (expanded ? 1 : size) + (last && t->view.ndim > 1 ? pad : 0);
    }
    return stride;
}

static int allocate(problem *p, size_t bytes, size_t lead, char *error)
{
    const size_t guard = (size_t)p->guard;
    const size_t total = (guard + lead + bytes + guard + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    pb_buffer *b = &p->buffer[p->nbuffers];
    *b = (pb_buffer){aligned_alloc(ALIGNMENT, total), NULL, total};
    if (!b->base)
        return pb_fail(error, "%s: out of memory", p->c->text);
    p->nbuffers++;
    return 0;
}

/* Bytes of a new buffer: what the operator only reads is surrounded by NaNs, so that reading too
 * far shows, the rest by 0xA5, so that writing too far does. */
static void surround(problem *p, const pb_tensor *t)
{
    const pb_buffer *b = &p->buffer[t->buffer];
    if (p->guard)
        memset(b->base, t->written ? 0xA5 : 0xFF, b->bytes);
}

/* Bytes before the first element: `offset` elements. (rms_norm has an option of that name, whose
 * values may be none of a place.) */
static size_t lead_of(const problem *p, size_t size)
{
    const double elements = pb_case_value(p->c, "offset");
    return elements > 0 && elements == (double)(int64_t)elements ? (size_t)elements * size : 0;
}

/* 1 if the case may lay the tensor out otherwise than its shape: pad, offset. */
static int is_movable(const pb_decl *d)
{
    return d->symbol || d->type == TG_F8E4M3;
}

/* A buffer of its own, or columns beside those of `left`. */
static int place(problem *p, pb_tensor *t, const pb_tensor *left, pb_tensor *right, int plain,
                 char *error)
{
    const size_t size = tg_type_size(tg_type_of(&t->view));
    const int index = (int)(t - p->tensor);
    const int64_t cols = t->view.ndim ? t->shape[t->view.ndim - 1] : 1;
    const int64_t pad = plain || !is_movable(t->decl) || !pb_case_value(p->c, "pad")
                            ? 0
                            : (int64_t)pb_case_value(p->c, "pad") + index;
    if (left) {
        const int64_t left_cols = left->shape[left->view.ndim - 1];
        memcpy(t->strides, left->strides, sizeof t->strides);
        t->buffer = left->buffer;
        t->view.data = (char *)left->view.data;
        t->view.byte_offset = left->view.byte_offset + (size_t)left_cols * size;
        return 0;
    }
    const int64_t elements =
        set_strides(p, t, cols + (right ? right->shape[right->view.ndim - 1] : 0), pad, plain);
    const size_t lead = plain || !is_movable(t->decl) ? 0 : lead_of(p, size);
    t->buffer = p->nbuffers;
    if (allocate(p, (size_t)elements * size, lead, error))
        return -1;
    t->view.data = p->buffer[t->buffer].base + p->guard;
    t->view.byte_offset = lead;
    surround(p, t);
    return 0;
}

static const pb_tensor *partner(const problem *p, const pb_tensor *t, pb_token_kind kind, int left)
{
    for (int i = 0; i < p->c->ntokens; i++) {
        const pb_token *k = &p->c->token[i];
        if (k->kind != kind || strcmp(left ? k->value : k->name, t->decl->name))
            continue;
        const pb_tensor *other = problem_tensor(p, left ? k->name : k->value);
        /* rows that lie beside each other have elements of one size */
        if (other && (kind != PB_BESIDE || tg_type_of(&other->view) == tg_type_of(&t->view)))
            return other;
    }
    return NULL;
}

/* Tensors in place of others and beside others come second. plain: neither, and no padding. */
static int place_all(problem *p, int plain, char *error)
{
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < p->op->ntensors; i++) {
            pb_tensor *t = &p->tensor[i];
            const pb_tensor *over = plain ? NULL : partner(p, t, PB_OVER, 0);
            const pb_tensor *left = plain ? NULL : partner(p, t, PB_BESIDE, 1);
            const pb_tensor *right = plain ? NULL : partner(p, t, PB_BESIDE, 0);
            if (!t->present || pass != (over ? 2 : left ? 1 : 0))
                continue;
            if (!over && place(p, t, left, (pb_tensor *)right, plain, error))
                return -1;
            if (over) {
                t->buffer = over->buffer;
                t->view.data = over->view.data;
                t->view.byte_offset = over->view.byte_offset;
                memcpy(t->strides, over->strides, sizeof t->strides);
                t->over = 1;
            }
        }
    return 0;
}

/* Everything but the elements. */
problem *pb_layout(const pb_op *op, const pb_case *c, int type, int guard, int plain, char *error)
{
    problem *p = calloc(1, sizeof *p);
    if (!p) {
        pb_fail(error, "out of memory");
        return NULL;
    }
    *p = (problem){
        .op = op, .c = c, .type = type, .guard = (guard + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT};
    for (int i = 0; i < op->ntensors; i++) {
        pb_tensor *t = &p->tensor[i];
        t->decl = &op->tensor[i];
        const tg_arg_info *a = argument(p, t);
        const int optional = a->kind == TG_ARG_OPT || a->kind == TG_ARG_OUT_OPT;
        t->present = !(optional && pb_case_drops(c, t->decl->name));
        t->written = a->kind == TG_ARG_OUT || a->kind == TG_ARG_OUT_OPT;
        t->read = !t->written || (a->reads && !overwrites(p));
        t->view = tg_tensor_of(NULL, element_type(p, t->decl), 0, t->shape);
        t->view.strides = t->strides;
        if (t->present && set_shape(p, t, error))
            goto fail;
    }
    if (place_all(p, plain, error))
        goto fail;
    for (int i = 0; i < op->ntensors; i++)
        p->slot[op->tensor[i].slot].ptr = p->tensor[i].present ? &p->tensor[i].view : NULL;
    for (int i = 0; i < op->info->nargs; i++) {
        const tg_arg_info *a = &op->info->args[i];
        const pb_token *set = a->kind >= TG_ARG_F64 ? pb_token_of(c, PB_SET, a->name) : NULL;
        if (a->kind == TG_ARG_F64)
            p->slot[i].f64 = set ? TG_VALUE(strtod(set->value, NULL)) : 0;
        if (a->kind == TG_ARG_I64)
            p->slot[i].i64 = set ? TG_VALUE(strtoll(set->value, NULL, 10)) : 0;
    }
    return p;
fail:
    problem_free(p);
    return NULL;
}
