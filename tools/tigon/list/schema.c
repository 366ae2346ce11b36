/* tools/tigon/list/schema.c - the run-time schema as JSON: all that a generated binding needs. */
#include <math.h>

#include "schema.h"

enum { MOST_RULES = 32 };

void schema_type_rules(json *j)
{
    const tg_type_rule *seen[MOST_RULES];
    int n = 0;
    json_object(j, "types");
    for (int op = 0; op < tg_op_count(); op++)
        for (int i = 0; i < tg_op_at(op)->nargs; i++) {
            const tg_type_rule *rule = tg_op_at(op)->args[i].types;
            int k = 0;
            while (k < n && seen[k] != rule)
                k++;
            if (!rule || k < n || n == MOST_RULES)
                continue;
            seen[n++] = rule;
            json_text(j, rule->name, rule->text);
        }
    json_close(j);
}

static void tensor(json *j, const tg_arg_info *a)
{
    if (a->reads)
        json_bool(j, "inout", 1);
    if (a->over)
        json_text(j, "over", a->over);
    json_text(j, "types", a->types->name);
    json_array(j, "dtypes");
    for (const int *type = a->types->types; *type; type++)
        json_text(j, NULL, tg_type_name(*type));
    json_close(j);
    json_text(j, "layout", tg_arg_layout_name(a->layout));
    json_text(j, "shape", a->shape);
}

static void option(json *j, const tg_arg_info *a)
{
    if (a->required)
        json_bool(j, "required", 1);
    else if (a->default_text)
        json_text(j, "default_text", a->default_text);
    else if (isinf(a->value))
        json_text(j, "default", "inf"); /* JSON has no number for it */
    else if (a->kind == TG_ARG_F64)
        json_real(j, "default", a->value);
    else
        json_int(j, "default", (int64_t)a->value);
    if (!a->choices)
        return;
    json_object(j, "values");
    for (const tg_choice *c = a->choices; c->name; c++)
        json_int(j, c->name, c->value);
    json_close(j);
}

void schema_arguments(json *j, const tg_op_info *op)
{
    json_array(j, "arguments");
    for (int i = 0; i < op->nargs; i++) {
        const tg_arg_info *a = &op->args[i];
        json_object(j, NULL);
        json_text(j, "name", a->name);
        json_text(j, "kind", tg_arg_kind_name(a->kind));
        (a->types ? tensor : option)(j, a);
        json_close(j);
    }
    json_close(j);
}
