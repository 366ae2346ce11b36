/* src/core/schema.h - what follows from ops.def for every call: its arguments in the form that
 * checks read, the checks, and the tensors that implementations see in place of the caller's. */
#ifndef TG_CORE_SCHEMA_H
#define TG_CORE_SCHEMA_H

#include "core/services.h"
#include "tigon/registry.h"

enum { MAX_ARGS = 32 };

/* ---- schema.c ---- */

extern const tg_op_info tg_ops[TG_OP_COUNT];

/* Tensor arguments of an operator in the form that the check of every call reads. */
typedef struct tensor_slot {
    const tg_type_rule *rule;
    uint8_t slot;     /* in the argument struct */
    uint8_t required; /* not NULL */
    uint8_t output;
    uint8_t layout; /* tg_arg_layout */
    int8_t over;    /* index, in this list, of the input whose buffer it may be; -1: none */
    int usual[4];   /* a type that it may have in a call whose T is type 0 to 3 of tg_el() */
} tensor_slot;
typedef struct op_tensors {
    int count;
    int main;    /* slot of a required tensor, whose type is T; without one that of any other */
    int untyped; /* 1: no tensor is T, and a call counts as one of f32 */
    tensor_slot at[MAX_ARGS];
} op_tensors;
extern op_tensors tg_tensor_lists[TG_OP_COUNT];
static inline const op_tensors *tg_op_tensors(int op)
{
    return &tg_tensor_lists[op];
}
/* T of a call. */
static inline int tg_call_type(const op_tensors *list, const void *args)
{
    const tg_tensor *const *slots = args;
    return TG_LIKELY(!list->untyped) ? tg_type_of(slots[list->main]) : TG_F32;
}

/* Options of an operator in the form that every call reads: as bits of their slots. */
typedef struct option_slot {
    uint64_t value; /* what zero means */
    uint64_t zero;  /* what means zero; 0 where nothing does */
    uint64_t sign;  /* of a floating-point number: -0.0 is zero as well */
    /* Values from low to high, in which none is refused; others are looked at one by one. */
    int is_real;
    double low, high;
    int64_t first, last;
} option_slot;
typedef struct op_options {
    int first; /* slot in the argument struct: options come after tensors */
    int count;
    option_slot at[MAX_ARGS];
} op_options;
extern op_options tg_option_lists[TG_OP_COUNT];
void tg_schema_open(void); /* fills both forms; once, from the registry */

/* The arguments with their options resolved: args itself where they are already, else `copy`, of
 * MAX_ARGS slots, written from it. Once a call: what is resolved may be zero. */
const void *tg_resolve_options(int op, const void *args, uint64_t *copy);
uint64_t tg_zero_bits(tg_arg_kind kind); /* of TG_ZERO in a slot */

/* ---- shape.c: the column `shape` ---- */

void tg_shapes_open(void); /* reads it; from tg_schema_open() */
/* Shapes of args, which have passed tg_check_schema(). */
tg_status tg_check_shapes(int op, const void *args);

/* ---- arguments.c, overlap.c ---- */

/* Memory that a tensor touches: [low, high), empty for no elements. */
typedef struct span {
    const tg_tensor *t; /* only where tg_check_overlap() reads it */
    const char *low, *high;
} span;

/* Checks args, resolved, by the schema; tells where the tensors lie (TG_DEVICE_CPU
 * if there are none). */
tg_status tg_check_schema(int op, const void *args, int *device_type);
/* Elements from the first to behind the last of dimensions [first, ndim), none
 * of them of size 0. */
int64_t tg_reach_of(const tg_tensor *t, int first);
/* spans: of the operator's tensors in the order of tg_op_tensors(). */
tg_status tg_check_overlap(int op, const span *spans);

/* ---- convert.c, convert_data.c: what a caller gave, and what implementations see ---- */

/* A tensor that implementations see otherwise: in another type, or with other strides. */
typedef struct conversion {
    const tg_tensor *given;
    const tensor_slot *slot;
    tg_tensor seen; /* until tg_convert() its data is that of the given one */
    int64_t strides[TG_MAX_NDIM];
} conversion;

typedef struct conversions {
    int op, count;
    uint64_t slots[MAX_ARGS]; /* the argument struct as they see it */
    conversion at[MAX_ARGS];
} conversions;

/* Fills in the usual types of a rule. */
void tg_usual_types(const tg_type_rule *rule, int *usual);
/* Types, of the tensors whose rule says all. Here and below, args are resolved and have passed
 * tg_check_schema(). */
tg_status tg_check_types(int op, const void *args);
/* 1 if implementations take a tensor of these strides as it is, by its layout in ops.def. even: of
 * PLANES, only those of one stride. */
int tg_layout_fits(int layout, const tg_tensor *t, int even);
/* 1 if every implementation sees the tensors as they are. */
int tg_is_canonical(int op, const void *args);
/* even: as an implementation sees them that takes no rows of two strides. */
void tg_plan_conversions(conversions *c, int op, const void *args, int even);
/* Takes memory for all, then fills it. */
tg_status tg_convert(tg_ctx *ctx, conversions *c);
/* Writes outputs back, rounded once. */
tg_status tg_convert_back(tg_ctx *ctx, const conversions *c);

#endif
