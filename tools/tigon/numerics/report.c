/* tools/tigon/numerics/report.c - the errors as text, JSON, and Markdown. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "numerics.h"
#include "share/types.h"

/* "0.50", "12.3", "4.1e+05" */
static const char *ulps(char *text, size_t size, double x)
{
    snprintf(text, size, x < 10 ? "%.2f" : x < 1000 ? "%.0f" : "%.0e", x);
    return text;
}

/* ---- text ---- */

static void print_error(const num_error *e)
{
    char max[32], mean[32];
    printf(" %8s %8s %8.1e", ulps(max, sizeof max, e->max_ulp),
           ulps(mean, sizeof mean, e->mean_ulp), e->max_rel);
    if (e->wrong)
        printf(" (%lld wrong)", (long long)e->wrong);
}

static void print_records(const num_table *t)
{
    const pb_op *op = NULL;
    const pb_case *c = NULL;
    for (int i = 0; i < t->n; i++) {
        const num_record *r = &t->record[i];
        if (r->op != op)
            printf("%s%-52s %8s %8s %8s      %8s %8s %8s\n", i ? "\n" : "", r->op->info->name,
                   "max ulp", "mean ulp", "max rel", "max ulp", "mean ulp", "max rel");
        if (r->op != op || r->c != c)
            printf("  %s: %s\n", r->c->hard, r->c->text);
        op = r->op;
        c = r->c;
        printf("    %-8s %-5s %-33s", r->op->tensor[r->output].name, tg_type_name(r->type),
               tg_impl_at(r->impl)->full_name);
        print_error(&r->error);
        if (r->compared) {
            printf("     ");
            print_error(&r->unfused);
            printf(" unfused");
        }
        printf("\n");
    }
}

static void print_studies(const num_studies *s)
{
    if (s->ngradients)
        printf("\nGradient of the true class by cross_entropy, in bf16\n"
               "  %8s %12s %12s %12s %24s\n",
               "p", "exact", "tigon", "unfused", "softmax in bf16, minus 1");
    for (int i = 0; i < s->ngradients; i++) {
        const num_gradient *g = &s->gradient[i];
        printf("  %8.5f %12.4e %12.4e %12.4e %24.4e\n", g->p, g->exact, g->impl, g->unfused,
               g->rounded);
    }
    if (s->ndrifts)
        printf("\nRelative error of dweight in bf16 by fused_linear_cross_entropy\n"
               "  %8s %16s %16s %16s\n",
               "chunks", "summed in f32", "summed in bf16", "unfused");
    for (int i = 0; i < s->ndrifts; i++) {
        const num_drift *d = &s->drift[i];
        printf("  %8lld %16.2e %16.2e %16.2e\n", (long long)d->chunks, d->once, d->each,
               d->unfused);
    }
}

void num_print(const num_table *t, const num_studies *s)
{
    print_records(t);
    print_studies(s);
}

/* ---- JSON ---- */

static void json_error(json *j, const num_error *e)
{
    json_real(j, "max_ulp", e->max_ulp);
    json_real(j, "mean_ulp", e->mean_ulp);
    json_real(j, "max_rel", e->max_rel);
    json_int(j, "wrong", e->wrong);
}

static void json_record(json *j, const num_record *r)
{
    json_object(j, NULL);
    json_text(j, "operator", r->op->info->name);
    json_text(j, "problem", r->c->hard);
    json_text(j, "case", r->c->text);
    json_text(j, "dtype", tg_type_name(r->type));
    json_text(j, "output", r->op->tensor[r->output].name);
    json_text(j, "implementation", tg_impl_at(r->impl)->full_name);
    json_error(j, &r->error);
    if (r->compared) {
        json_object(j, "unfused");
        json_error(j, &r->unfused);
        json_close(j);
    }
    json_close(j);
}

static void json_studies(json *j, const num_studies *s)
{
    json_array(j, "true_class_gradient");
    for (int i = 0; i < s->ngradients; i++) {
        const num_gradient *g = &s->gradient[i];
        json_object(j, NULL);
        json_real(j, "p", g->p);
        json_real(j, "exact", g->exact);
        json_real(j, "tigon", g->impl);
        json_real(j, "unfused", g->unfused);
        json_real(j, "softmax_bf16_minus_1", g->rounded);
        json_close(j);
    }
    json_close(j);
    json_array(j, "dweight_drift");
    for (int i = 0; i < s->ndrifts; i++) {
        const num_drift *d = &s->drift[i];
        json_object(j, NULL);
        json_int(j, "chunks", d->chunks);
        json_real(j, "summed_in_f32", d->once);
        json_real(j, "summed_in_bf16", d->each);
        json_real(j, "unfused", d->unfused);
        json_close(j);
    }
    json_close(j);
}

void num_json(const num_table *t, const num_studies *s)
{
    json j = json_begin(stdout, 2);
    json_object(&j, NULL);
    json_text(&j, "level", tg_cpu_level());
    json_array(&j, "records");
    for (int i = 0; i < t->n; i++)
        json_record(&j, &t->record[i]);
    json_close(&j);
    json_studies(&j, s);
    json_close(&j);
    json_end(&j);
}

/* ---- Markdown ---- */

static void worse(num_error *worst, const num_error *e)
{
    worst->max_ulp = fmax(worst->max_ulp, e->max_ulp);
    worst->mean_ulp = fmax(worst->mean_ulp, e->mean_ulp);
    worst->max_rel = fmax(worst->max_rel, e->max_rel);
    worst->wrong += e->wrong;
}

static void cell(FILE *out, const num_error *e, int there)
{
    char max[32], mean[32];
    if (!there) {
        fprintf(out, " |");
        return;
    }
    if (e->max_ulp == 0 && !e->wrong) {
        fprintf(out, " exact |");
        return;
    }
    fprintf(out, " %s · %s · %.0e", ulps(max, sizeof max, e->max_ulp),
            ulps(mean, sizeof mean, e->mean_ulp), e->max_rel);
    if (e->wrong)
        fprintf(out, " (%lld wrong)", (long long)e->wrong);
    fprintf(out, " |");
}

void num_markdown_table(FILE *out, const num_table *t)
{
    fprintf(out, "| operator | problem |");
    for (int k = 0; k < DATA_TYPES; k++)
        fprintf(out, " %s | unfused |", tg_type_name(data_types[k]));
    fprintf(out, "\n|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < t->n;) {
        const num_record *first = &t->record[i];
        num_error mine[DATA_TYPES] = {{0}}, unfused[DATA_TYPES] = {{0}};
        int there[DATA_TYPES] = {0}, compared[DATA_TYPES] = {0};
        for (; i < t->n && t->record[i].op == first->op && t->record[i].c == first->c; i++) {
            const num_record *r = &t->record[i];
            for (int k = 0; k < DATA_TYPES; k++)
                if (data_types[k] == r->type) {
                    worse(&mine[k], &r->error);
                    worse(&unfused[k], &r->unfused);
                    there[k] = 1;
                    compared[k] |= r->compared;
                }
        }
        fprintf(out, "| `%s` | %s |", first->op->info->name, first->c->hard);
        for (int k = 0; k < DATA_TYPES; k++) {
            cell(out, &mine[k], there[k]);
            cell(out, &unfused[k], compared[k]);
        }
        fprintf(out, "\n");
    }
    fprintf(out, "\nMeasured on a processor of level %s.\n", tg_cpu_level());
}

void num_markdown_gradient(FILE *out, const num_studies *s)
{
    fprintf(out,
            "| p | exact | tigon | unfused | softmax in bf16, minus 1 |\n|---|---|---|---|---|\n");
    for (int i = 0; i < s->ngradients; i++) {
        const num_gradient *g = &s->gradient[i];
        fprintf(out, "| %.5f | %.4e | %.4e | %.4e | %.4e |\n", g->p, g->exact, g->impl, g->unfused,
                g->rounded);
    }
}

void num_markdown_drift(FILE *out, const num_studies *s)
{
    fprintf(out, "| chunks | summed in f32 | summed in bf16 | unfused |\n|---|---|---|---|\n");
    for (int i = 0; i < s->ndrifts; i++) {
        const num_drift *d = &s->drift[i];
        fprintf(out, "| %lld | %.2e | %.2e | %.2e |\n", (long long)d->chunks, d->once, d->each,
                d->unfused);
    }
}
