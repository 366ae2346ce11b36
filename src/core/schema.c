/* The run-time schema, expanded from ops.def. */
#include <stdio.h>
#include <string.h>

#include "core/core.h"

#define TG_IN(name) {#name, TG_ARG_IN, 0, NULL},
#define TG_OPT(name) {#name, TG_ARG_OPT, 0, NULL},
#define TG_OUT(name) {#name, TG_ARG_OUT, 0, NULL},
#define TG_OUT_OPT(name) {#name, TG_ARG_OUT_OPT, 0, NULL},
#define TG_OUT_OVER(name, in) {#name, TG_ARG_OUT, 0, #in},
#define TG_OPT_OVER(name, in) {#name, TG_ARG_OUT_OPT, 0, #in},
#define TG_INOUT(name) {#name, TG_ARG_OUT, 1, NULL},
#define TG_INOUT_OPT(name) {#name, TG_ARG_OUT_OPT, 1, NULL},
#define TG_F64(name) {#name, TG_ARG_F64, 0, NULL},
#define TG_I64(name) {#name, TG_ARG_I64, 0, NULL},

#define TG_OP(op, fields) static const tg_arg_info args_##op[] = {fields};
#include "tigon/ops.def"
#undef TG_OP

#define TG_OP(op, fields)                                                                \
    _Static_assert(sizeof(tg_##op##_args) == 8 * (sizeof args_##op / sizeof *args_##op), \
                   "every argument is one 8-byte slot");                                 \
    _Static_assert(sizeof args_##op / sizeof *args_##op <= MAX_ARGS, "too many arguments");
#include "tigon/ops.def"
#undef TG_OP

const tg_op_info tg_ops[TG_OP_COUNT] = {
#define TG_OP(op, fields) {#op, (int)(sizeof args_##op / sizeof *args_##op), args_##op},
#include "tigon/ops.def"
#undef TG_OP
};

const char *tg_arg_kind_name(tg_arg_kind kind)
{
    static const char *const names[] = {"in", "opt", "out", "out_opt", "f64", "i64"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

int tg_op_count(void)
{
    return TG_OP_COUNT;
}

const tg_op_info *tg_op_at(int id)
{
    return id >= 0 && id < TG_OP_COUNT ? &tg_ops[id] : NULL;
}

int tg_op_by_name(const char *name)
{
    for (int i = 0; name && i < TG_OP_COUNT; i++)
        if (strcmp(tg_ops[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- the compact form ---- */

static op_tensors tensors[TG_OP_COUNT];

static void fill_tensors(op_tensors *list, const tg_op_info *op)
{
    for (int i = 0; i < op->nargs; i++) {
        const tg_arg_info *arg = &op->args[i];
        if (arg->kind == TG_ARG_F64 || arg->kind == TG_ARG_I64)
            continue;
        tensor_slot *s = &list->at[list->count++];
        s->slot = (uint8_t)i;
        s->required = arg->kind == TG_ARG_IN || arg->kind == TG_ARG_OUT;
        s->output = arg->kind == TG_ARG_OUT || arg->kind == TG_ARG_OUT_OPT;
        s->over = -1;
        for (int k = 0; arg->over && k < list->count - 1; k++)
            if (strcmp(op->args[list->at[k].slot].name, arg->over) == 0)
                s->over = (int8_t)k;
    }
}

void tg_schema_open(void)
{
    for (int i = 0; i < TG_OP_COUNT; i++)
        fill_tensors(&tensors[i], &tg_ops[i]);
}

const op_tensors *tg_op_tensors(int op)
{
    return &tensors[op];
}
