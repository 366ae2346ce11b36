/* tools/tigon/list/list.c - `tigon list`: operators, arguments, implementations, and which
 * implementation a call resolves to.
 *
 * --json carries the run-time schema: a binding in any language is generated from it alone. Every
 * argument is one 8-byte slot: a pointer to a tg_tensor, a double or an int64_t.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/tigon.h>

#include "formats/json.h"
#include "matrix.h"
#include "schema.h"
#include "share/cli.h"
#include "share/impl_device.h"
#include "share/names.h"

enum { MAX_IMPLS = 256, MAX_OPS = 256 };

typedef struct listing {
    tg_ctx *ctx;
    int resolve;
    int nwanted;
    char **wanted; /* prefixes of operators; none: all */
} listing;

/* The implementations that a call of `op` tries, in order. */
static int resolve(const listing *l, int op, int *impls)
{
    const int n = tg_resolve(l->ctx, op, impls, MAX_IMPLS);
    return n < MAX_IMPLS ? n : MAX_IMPLS;
}

static void print_option(const tg_arg_info *a)
{
    if (a->required)
        printf(" (required)");
    else if (a->default_text)
        printf(" = %s", a->default_text);
    else
        printf(" = %g", a->value);
    for (const tg_choice *c = a->choices; c && c->name; c++)
        printf("%s%s %lld%s", c == a->choices ? " (" : " | ", c->name, (long long)c->value,
               c[1].name ? "" : ")");
}

static void print_argument(const tg_arg_info *a, int last)
{
    printf("%s %s", tg_arg_kind_name(a->kind), a->name);
    if (a->types)
        printf(" %s%s%s%s", a->types->name, a->reads ? " (read too)" : "", a->over ? " over " : "",
               a->over ? a->over : "");
    else
        print_option(a);
    printf(last ? "\n" : ", ");
}

static void print_operator(const listing *l, int op)
{
    const tg_op_info *info = tg_op_at(op);
    printf("%s\n  ", info->name);
    for (int i = 0; i < info->nargs; i++)
        print_argument(&info->args[i], i == info->nargs - 1);
    if (l->resolve) {
        int impls[MAX_IMPLS];
        const int n = resolve(l, op, impls);
        for (int i = 0; i < n; i++)
            printf("  %d. %s\n", i + 1, tg_impl_at(impls[i])->full_name);
        if (!n)
            printf("  no implementation of the allowed implementations\n");
        return;
    }
    for (int r = 0; r < tg_impl_count(); r++) {
        const tg_impl_info *impl = tg_impl_at(r);
        if (impl->op != op)
            continue;
        const char *needs = tg_cpu_needs(impl->needs);
        const char *device = impl_device(r);
        printf("  %-44s %s%s%s%s%s\n", impl->full_name, *needs ? "needs " : "", needs,
               strcmp(device, "cpu") ? "device " : "", strcmp(device, "cpu") ? device : "",
               impl_missing(l->ctx, r) ? "  (not available here)" : "");
    }
}

/* Why implementations of other devices are not available, once for each of these. */
static void print_missing(const listing *l)
{
    int told = 0;
    for (int b = 0; b < tg_backend_count(); b++) {
        const tg_backend_info *backend = tg_backend_at(b);
        int r = 0;
        while (r < tg_impl_count() && strcmp(tg_impl_at(r)->backend, backend->vendor))
            r++;
        if (!strcmp(backend->device, "cpu") || r == tg_impl_count() || !impl_missing(l->ctx, r))
            continue;
        printf("%s  device %s\n", told++ ? "" : "\nNot available here\n", impl_missing(l->ctx, r));
    }
}

static void json_operator(json *j, const listing *l, int op)
{
    const tg_op_info *info = tg_op_at(op);
    json_object(j, NULL);
    json_text(j, "name", info->name);
    json_int(j, "id", op);
    schema_arguments(j, info);
    json_array(j, "implementations");
    for (int r = 0; r < tg_impl_count(); r++) {
        const tg_impl_info *impl = tg_impl_at(r);
        if (impl->op != op)
            continue;
        json_object(j, NULL);
        json_text(j, "name", impl->full_name);
        json_text(j, "backend", impl->backend);
        json_text(j, "device", impl_device(r));
        json_text(j, "needs", tg_cpu_needs(impl->needs));
        const char *missing = impl_missing(l->ctx, r);
        json_bool(j, "supported", !missing);
        if (missing)
            json_text(j, "why_not", missing);
        json_close(j);
    }
    json_close(j);
    if (l->resolve) {
        int impls[MAX_IMPLS];
        const int n = resolve(l, op, impls);
        json_array(j, "resolved");
        for (int i = 0; i < n; i++)
            json_text(j, NULL, tg_impl_at(impls[i])->full_name);
        json_close(j);
    }
    json_close(j);
}

static int matrix_of(const listing *l, const matrix_format *format)
{
    int ops[MAX_OPS], n = 0;
    for (int op = 0; op < tg_op_count() && n < MAX_OPS; op++)
        if (name_is_wanted(l->wanted, l->nwanted, tg_op_at(op)->name))
            ops[n++] = op;
    return matrix_run(l->ctx, ops, n, format);
}

/* Every operator that is wanted, as text or into the JSON object. */
static int list_all(const listing *l, int as_json)
{
    json j = json_begin(stdout, 4);
    if (as_json) {
        json_object(&j, NULL);
        json_text(&j, "version", tg_version());
        schema_type_rules(&j);
        json_array(&j, "operators");
    }
    for (int op = 0; op < tg_op_count(); op++) {
        if (!name_is_wanted(l->wanted, l->nwanted, tg_op_at(op)->name))
            continue;
        if (as_json)
            json_operator(&j, l, op);
        else
            print_operator(l, op);
    }
    if (as_json) {
        json_close(&j);
        json_close(&j);
        json_end(&j);
    } else if (!l->resolve)
        print_missing(l);
    return 0;
}

static int wrong_options(const cli_usage *usage, const listing *l, const matrix_format *f,
                         int matrix)
{
    if (!matrix && (f->markdown || f->update))
        return cli_error(usage, "--markdown, --update: expected --matrix with them");
    if (matrix && l->resolve)
        return cli_error(usage, "--matrix, --resolve: expected one of them");
    if (f->json + f->markdown + (f->update != NULL) > 1)
        return cli_error(usage, "--json, --markdown, --update: expected at most one");
    if (f->update && l->nwanted)
        return cli_error(usage,
                         "--update: found %d operators, expected none: the document shows all",
                         l->nwanted);
    return names_unknown(usage, l->wanted, l->nwanted);
}

int command_list(int argc, char **argv)
{
    int matrix = 0;
    matrix_format format = {0};
    const char *device = NULL;
    listing l = {0};
    const cli_option options[] = {
        CLI_DEVICE(&device),
        {"--json", CLI_FLAG, &format.json, NULL,
         "print the schema, or the matrix, as one JSON object"},
        {"--resolve", CLI_FLAG, &l.resolve, NULL,
         "print the implementations that a call tries, in order"},
        {"--matrix", CLI_FLAG, &matrix, NULL,
         "check the small cases of every implementation of the device now, and print which are "
         "right in which types"},
        {"--markdown", CLI_FLAG, &format.markdown, NULL, "with --matrix: as Markdown"},
        {"--update", CLI_TEXT, &format.update, "FILE",
         "with --matrix: write the table between the markers of this document; columns of devices "
         "other than --device keep what was found on them"},
        {0},
    };
    const cli_usage usage = {
        "tigon list",
        "[OPERATOR...]",
        "Operators with their arguments in slot order, and their implementations.",
        "OPERATOR may be the beginning of a name: rms_norm stands for rms_norm_forward and\n"
        "rms_norm_backward. The settings of the environment (TIGON_IMPL and so on) count for\n"
        "--resolve; of the implementations it prints, the first that accepts a call's problem runs "
        "it.\n"
        "--matrix takes minutes; the exit status is 1 if a check failed.",
        options,
        64};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);
    l.nwanted = parsed;
    l.wanted = argv + 1;
    if (wrong_options(&usage, &l, &format, matrix))
        return 2;

    cli_use_device(device);
    backends_bring();
    if (tg_ctx_create(&l.ctx)) {
        fprintf(stderr, "tigon list: %s\n", tg_last_error());
        return 1;
    }
    const int status = matrix ? matrix_of(&l, &format) : list_all(&l, format.json);
    tg_ctx_destroy(l.ctx);
    return status;
}
