/* tools/tigon/problem/parts.h - what the files of this folder share. */
#ifndef TIGON_PROBLEM_PARTS_H
#define TIGON_PROBLEM_PARTS_H

#include "problem.h"

/* Writes a message into error and returns -1. */
int pb_fail(char *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Finds the value of a name; 0, or -1 if the name is unknown. */
typedef int (*pb_lookup)(const void *arg, const char *name, double *value);
/* Evaluates a whole expression; 0, or -1 with the error. */
int pb_eval(const char *text, pb_lookup lookup, const void *arg, double *value, char *error);

/* edit.c: what stands between a token's name and its value; 0 for those without a value */
enum { PB_KINDS = PB_FLAG + 1 };
extern const char pb_separators[PB_KINDS];

/* case.c */
const pb_token *pb_token_of(const pb_case *c, pb_token_kind kind, const char *name);
/* The option (scalar) of that name; NULL if the operator has none. */
const tg_arg_info *pb_option(const tg_op_info *info, const char *name);
/* Looks up a dimension, option or element size. */
typedef struct pb_scope {
    const pb_op *op;
    const pb_case *c;
    int type;
} pb_scope;
int pb_scope_lookup(const void *scope, const char *name, double *value);
/* The sizes that a shape means in a case: their number, -1 with the error. */
int pb_scope_shape(const pb_scope *scope, const char *shape, int64_t *sizes, char *error);

/* layout.c: everything but the elements. plain: no padding, no tensor in place of or beside
 * another. NULL with the error. */
problem *pb_layout(const pb_op *op, const pb_case *c, int type, int guard, int plain, char *error);

/* fill.c: values of an input, or the first values of a tensor that is updated. */
int pb_fill(const problem *p, const pb_tensor *t, uint64_t seed, char *error);
/* Writes poison into an output. */
void pb_poison(const pb_tensor *t);

/* saved.c: fills the inputs of a backward operator that its forward saved. */
int pb_fill_saved(const catalogue *cat, problem *p, const pb_options *options, char *error);
int pb_is_saved(const catalogue *cat, const pb_op *op, const char *name);

#endif
