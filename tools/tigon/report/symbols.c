/* tools/tigon/report/symbols.c - of point 2: what an operator is called in Liger-Kernel, with its
 * parameters, beside Tigon's own call. */
#include <stdio.h>
#include <string.h>

#include "report.h"

typedef enum symbol_kind { FUNCTION, KERNEL } symbol_kind;

static const char *const kinds[] = {
    [FUNCTION] = "Liger function", [KERNEL] = "Liger kernel (Triton)"};

static const struct {
    const char *op, *module;
    symbol_kind kind;
    const char *name, *parameters;
} symbols[] = {
#define LIGER(op, module, kind, name, parameters) {#op, module, kind, name, parameters},
#include "liger.inc"
#undef LIGER
};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };

static void row(report *r, const char *op, const char *kind, const char *symbol,
                const char *signature)
{
    doc_cell(r->d, "%s", op);
    doc_cell(r->d, "%s", kind);
    doc_cell(r->d, "%s", symbol);
    doc_cell(r->d, "%s", signature);
}

/* "in x, opt weight, out y, out_opt rstd, f64 eps, ..." */
static void own_call(report *r, const tg_op_info *op)
{
    char name[128], text[1024] = "";
    for (int i = 0; i < op->nargs; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s %s", i ? ", " : "",
                 tg_arg_kind_name(op->args[i].kind), op->args[i].name);
    }
    snprintf(name, sizeof name, "tg_%s", op->name);
    row(r, op->name, "Tigon", name, text);
}

void report_symbols(report *r)
{
    static const char *const columns[] = {"operator", "whose", "symbol", "parameters", NULL};
    char name[160];
    doc_table(r->d, "symbols", columns);
    for (int i = 0; i < r->nops; i++) {
        const tg_op_info *op = tg_op_at(r->op[i]);
        int found = 0;
        own_call(r, op);
        for (int k = 0; k < SYMBOLS; k++) {
            if (strcmp(symbols[k].op, op->name))
                continue;
            snprintf(name, sizeof name, "liger_kernel.ops.%s.%s", symbols[k].module,
                     symbols[k].name);
            row(r, op->name, kinds[symbols[k].kind], name, symbols[k].parameters);
            found++;
        }
        if (!found)
            row(r, op->name, kinds[FUNCTION], "-", "Liger has no such operator");
    }
}
