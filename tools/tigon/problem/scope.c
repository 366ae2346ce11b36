/* tools/tigon/problem/scope.c - what a case says: its sizes, options, types and flags, and shapes
 * that are computed of them. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

const tg_arg_info *pb_option(const tg_op_info *info, const char *name)
{
    for (int i = 0; i < info->nargs; i++)
        if (info->args[i].kind >= TG_ARG_F64 && !strcmp(info->args[i].name, name))
            return &info->args[i];
    return NULL;
}

const pb_token *pb_token_of(const pb_case *c, pb_token_kind kind, const char *name)
{
    for (int i = c->ntokens - 1; i >= 0; i--)
        if (c->token[i].kind == kind && !strcmp(c->token[i].name, name))
            return &c->token[i];
    return NULL;
}

int pb_case_drops(const pb_case *c, const char *name)
{
    return pb_token_of(c, PB_DROP, name) != NULL;
}

double pb_case_value(const pb_case *c, const char *name)
{
    const pb_token *t = pb_token_of(c, PB_SET, name);
    return t ? strtod(t->value, NULL) : 0;
}

int pb_case_flag(const pb_case *c, const char *flag)
{
    return pb_token_of(c, PB_FLAG, flag) != NULL;
}

int pb_case_takes(const pb_case *c, int type)
{
    const pb_token *t = pb_token_of(c, PB_SET, "types");
    if (!t)
        return 1;
    const char *name = tg_type_name(type);
    const size_t n = strlen(name);
    for (const char *at = t->value; *at; at += strcspn(at, ","), at += *at == ',')
        if (!strncmp(at, name, n) && (!at[n] || at[n] == ','))
            return 1;
    return 0;
}

/* W defaults to T, G to W. */
int pb_type_of_symbol(const pb_case *c, char symbol, int type)
{
    if (type == TG_F64 || symbol == 'T')
        return type;
    const pb_token *t = pb_token_of(c, PB_SET, symbol == 'W' ? "W" : "G");
    const int set = t ? tg_type_by_name(t->value) : 0;
    if (set)
        return set;
    return symbol == 'G' ? pb_type_of_symbol(c, 'W', type) : type;
}

int pb_scope_lookup(const void *arg, const char *name, double *value)
{
    const pb_scope *scope = arg;
    static const char sizes[] = "EWG";
    if (name[0] && strchr(sizes, name[0]) && !strcmp(name + 1, "SIZE")) {
        const char symbol = name[0] == 'E' ? 'T' : name[0];
        *value = (double)tg_type_size(pb_type_of_symbol(scope->c, symbol, scope->type));
        return 0;
    }
    if (pb_token_of(scope->c, PB_SET, name)) {
        *value = pb_case_value(scope->c, name);
        return 0;
    }
    const tg_arg_info *option = pb_option(scope->op->info, name);
    *value = option ? option->value : 0;
    return option ? 0 : -1;
}

/* For tg_shape_of(): a size of the case. */
static int size_of(void *scope, const char *name, int64_t *size)
{
    double value;
    if (pb_scope_lookup(scope, name, &value) || value != (double)(int64_t)value)
        return -1;
    *size = (int64_t)value;
    return 0;
}

int pb_scope_shape(const pb_scope *scope, const char *shape, int64_t *sizes, char *error)
{
    pb_scope of = *scope;
    int ndim;
    if (tg_shape_of(scope->op->id, shape, size_of, &of, sizes, &ndim) != TG_OK)
        return pb_fail(error, "%s: %s", scope->c->text, tg_last_error());
    return ndim;
}

int pb_has_columns(const pb_decl *d, const char *size)
{
    const char *comma = strrchr(d->shape, ',');
    return comma && !strcmp(comma + 1, size);
}
