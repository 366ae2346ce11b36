/* The run-time schema, expanded from ops.def. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/core.h"

/* ---- the names that ops.def uses ---- */

#define FLOATS TG_F32, TG_BF16, TG_F16, TG_F64
#define RULE(name, seen, with, text, ...)      \
    static const tg_type_rule types_##name = { \
        #name, text, TG_SEEN_##seen, TG_WITH_##with, {__VA_ARGS__}};
RULE(T, AS_IS, T, "one type for all T of a call; f64: ref alone", FLOATS)
RULE(T_OR_F32, AS_IS, T_OR_F32, "T or f32", FLOATS)
RULE(ANY_OF_F32, AS_IS, T_OR_16, "T; if T is f32, also bf16 or f16", FLOATS)
RULE(FLOAT, AS_IS, F64, "any; f64 if T is f64", FLOATS)
RULE(W, T_OR_F32, F64, "any; f64 if T is f64; implementations see T or f32", FLOATS)
RULE(STAT, AS_IS, F64, "f32; f64 if T is f64", TG_F32, TG_F64)
RULE(REAL, F32, F64, "any; f64 if T is f64; implementations see f32", FLOATS)
RULE(INDEX, I64, ANY, "any; implementations see i64", TG_I64, TG_I32)
RULE(MASK, MASK, ANY, "any, 0 or not; implementations see i64", TG_I64, TG_I32, TG_U8, TG_BOOL,
     FLOATS)
RULE(I64, AS_IS, ANY, "i64", TG_I64)
RULE(F8, AS_IS, F64, "f8e4m3; f64 if T is f64", TG_F8E4M3, TG_F64)

static const tg_choice no_yes[] = {{"no", 0}, {"yes", 1}, {0}};
static const tg_choice casting_modes[] = {{"llama", 0}, {"gemma", 1}, {"none", -1}, {0}};
static const tg_choice pairings[] = {{"halves", TG_HALVES},
                                     {"adjacent", TG_ADJACENT},
                                     {"adjacent_to_halves", TG_ADJACENT_TO_HALVES},
                                     {0}};
static const tg_choice scorings[] = {{"softmax", TG_MOE_SOFTMAX}, {"sigmoid", TG_MOE_SIGMOID}, {0}};
static const tg_choice group_scores[] = {
    {"two_largest", TG_MOE_TWO_LARGEST}, {"largest", TG_MOE_LARGEST}, {0}};
static const tg_choice muon_adjusts[] = {
    {"original", TG_MUON_ORIGINAL}, {"match_rms_adamw", TG_MUON_MATCH_RMS_ADAMW}, {0}};
static const tg_choice moe_activations[] = {
    {"swiglu", TG_MOE_SWIGLU}, {"geglu", TG_MOE_GEGLU}, {"geglu_exact", TG_MOE_GEGLU_EXACT}, {0}};
static const tg_choice reductions[] = {{"mean", TG_MEAN}, {"sum", TG_SUM}, {"none", TG_NONE}, {0}};
static const tg_choice token_reductions[] = {{"mean", TG_MEAN}, {"none", TG_NONE}, {0}};
static const tg_choice element_reductions[] = {
    {"mean", TG_MEAN}, {"sum", TG_SUM}, {"none", TG_NONE}, {"batchmean", TG_BATCHMEAN}, {0}};
static const tg_choice summed_reductions[] = {
    {"mean", TG_MEAN}, {"sum", TG_SUM}, {"batchmean", TG_BATCHMEAN}, {0}};
static const tg_choice policy_losses[] = {
    {"grpo", TG_GRPO},       {"dapo", TG_DAPO},   {"bnpo", TG_BNPO},
    {"dr_grpo", TG_DR_GRPO}, {"luspo", TG_LUSPO}, {"cispo", TG_CISPO},
    {"sapo", TG_SAPO},       {"vespo", TG_VESPO}, {0}};
static const tg_choice preference_losses[] = {{"sigmoid", TG_DPO_SIGMOID},
                                              {"hinge", TG_DPO_HINGE},
                                              {"exo_pair", TG_DPO_EXO_PAIR},
                                              {"nca_pair", TG_DPO_NCA_PAIR},
                                              {"robust", TG_DPO_ROBUST},
                                              {"bco_pair", TG_DPO_BCO_PAIR},
                                              {"sppo_hard", TG_DPO_SPPO_HARD},
                                              {"apo_zero", TG_DPO_APO_ZERO},
                                              {"apo_down", TG_DPO_APO_DOWN},
                                              {"discopop", TG_DPO_DISCOPOP},
                                              {"orpo", TG_ORPO},
                                              {"kto", TG_KTO},
                                              {0}};
static const tg_choice sampling_levels[] = {
    {"token", TG_TOKEN_LEVEL}, {"sequence", TG_SEQUENCE_LEVEL}, {0}};

/* ---- ops.def ---- */

#define TG_FROM(text) 0, .default_text = text
#define TG_REQUIRED 0, .required = 1
#define TENSOR(arg, k, rule, at, sizes)                                                 \
    .name = #arg, .kind = TG_ARG_##k, .types = &types_##rule, .layout = TG_LAYOUT_##at, \
    .shape = sizes
#define TG_IN(arg, rule, at, sizes) {TENSOR(arg, IN, rule, at, sizes)},
#define TG_OPT(arg, rule, at, sizes) {TENSOR(arg, OPT, rule, at, sizes)},
#define TG_OUT(arg, rule, at, sizes) {TENSOR(arg, OUT, rule, at, sizes)},
#define TG_OUT_OPT(arg, rule, at, sizes) {TENSOR(arg, OUT_OPT, rule, at, sizes)},
#define TG_OUT_OVER(arg, rule, at, sizes, in) {TENSOR(arg, OUT, rule, at, sizes), .over = #in},
#define TG_OPT_OVER(arg, rule, at, sizes, in) {TENSOR(arg, OUT_OPT, rule, at, sizes), .over = #in},
#define TG_INOUT(arg, rule, at, sizes) {TENSOR(arg, OUT, rule, at, sizes), .reads = 1},
#define TG_INOUT_OPT(arg, rule, at, sizes) {TENSOR(arg, OUT_OPT, rule, at, sizes), .reads = 1},
#define TG_F64(arg, init) {.name = #arg, .kind = TG_ARG_F64, .value = init},
#define TG_I64(arg, init) {.name = #arg, .kind = TG_ARG_I64, .value = init},
#define TG_CHOICE(arg, list) {.name = #arg, .kind = TG_ARG_I64, .choices = list},

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

const char *tg_arg_layout_name(tg_arg_layout layout)
{
    static const char *const names[] = {"", "strided", "rows", "planes", "dim", "compact"};
    return (unsigned)layout < sizeof names / sizeof *names ? names[layout] : "?";
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

op_tensors tg_tensor_lists[TG_OP_COUNT];
op_options tg_option_lists[TG_OP_COUNT];

static void fill_tensors(op_tensors *list, const tg_op_info *op)
{
    list->main = -1;
    for (int i = 0; i < op->nargs; i++) {
        const tg_arg_info *arg = &op->args[i];
        if (arg->kind == TG_ARG_F64 || arg->kind == TG_ARG_I64)
            continue;
        tensor_slot *s = &list->at[list->count++];
        s->slot = (uint8_t)i;
        s->required = arg->kind == TG_ARG_IN || arg->kind == TG_ARG_OUT;
        s->rule = arg->types;
        tg_usual_types(s->rule, s->usual);
        if (s->rule == &types_T && s->required && (list->main < 0 || list->untyped)) {
            list->main = i;
            list->untyped = 0;
        } else if (s->required && list->main < 0) {
            list->main = i;
            list->untyped = 1;
        }
        s->layout = (uint8_t)arg->layout;
        s->output = arg->kind == TG_ARG_OUT || arg->kind == TG_ARG_OUT_OPT;
        s->over = -1;
        for (int k = 0; arg->over && k < list->count - 1; k++)
            if (strcmp(op->args[list->at[k].slot].name, arg->over) == 0)
                s->over = (int8_t)k;
    }
}

static uint64_t bits_of(tg_arg_kind kind, double value)
{
    const int64_t integer = kind == TG_ARG_I64 ? (int64_t)value : 0;
    uint64_t bits;
    memcpy(&bits, kind == TG_ARG_I64 ? (const void *)&integer : &value, sizeof bits);
    return bits;
}

uint64_t tg_zero_bits(tg_arg_kind kind)
{
    return bits_of(kind, (double)TG_ZERO);
}

/* An option's values that are taken without a further look. TG_ZERO is the lowest integer. */
static void fill_range(option_slot *o, const tg_arg_info *arg)
{
    o->is_real = arg->kind == TG_ARG_F64;
    o->low = arg->default_text ? 0 : -(double)FLT_MAX;
    o->high = (double)FLT_MAX;
    o->first = arg->default_text ? 0 : INT64_MIN;
    o->last = INT64_MAX;
    if (!arg->choices)
        return;
    o->first = o->last = arg->choices->value;
    int count = 0;
    for (const tg_choice *c = arg->choices; c->name; c++, count++) {
        o->first = c->value < o->first ? c->value : o->first;
        o->last = c->value > o->last ? c->value : o->last;
    }
    if (o->last - o->first != count - 1) /* there are gaps */
        o->last = o->first;
}

static void fill_options(op_options *list, const tg_op_info *op)
{
    list->first = tg_tensor_lists[op - tg_ops].count;
    for (int i = list->first; i < op->nargs; i++) {
        const tg_arg_info *arg = &op->args[i];
        option_slot *o = &list->at[list->count++];
        *o = (option_slot){.value = bits_of(arg->kind, arg->value),
                           .zero = arg->default_text ? 0 : tg_zero_bits(arg->kind),
                           .sign = arg->kind == TG_ARG_F64 ? bits_of(TG_ARG_F64, -0.0) : 0};
        fill_range(o, arg);
    }
}

void tg_schema_open(void)
{
    for (int i = 0; i < TG_OP_COUNT; i++) {
        fill_tensors(&tg_tensor_lists[i], &tg_ops[i]);
        fill_options(&tg_option_lists[i], &tg_ops[i]);
    }
    tg_shapes_open();
}

const void *tg_resolve_options(int op, const void *args, uint64_t *copy)
{
    const op_options *list = &tg_option_lists[op];
    if (!args)
        return NULL;
    const uint64_t *const given = (const uint64_t *)args + list->first;
    uint64_t *const resolved = copy + list->first, differ = 0;
    for (int i = 0; i < list->count; i++) {
        const option_slot *o = &list->at[i];
        const uint64_t v = given[i], plain = v == o->zero ? 0 : v;
        resolved[i] = (v & ~o->sign) == 0 ? o->value : plain;
        differ |= resolved[i] ^ v;
    }
    if (!differ)
        return args;
    memcpy(copy, args, (size_t)list->first * sizeof *copy);
    return copy;
}
