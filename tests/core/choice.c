/* Which implementation runs: defaults, lists, ceilings, strictness, direct access; and
 * what the log says. */
#include "../common/test.h"

enum { R = 4, N = 24 };

typedef struct norm {
    float x[R * N], weight[N], y[R * N], rstd[R];
    int64_t shape[2], columns, rows;
    tg_tensor tx, tweight, ty, trstd;
    tg_rms_norm_forward_args args;
} norm;

static norm *make(void)
{
    static norm n;
    n.shape[0] = n.rows = R;
    n.shape[1] = n.columns = N;
    for (int i = 0; i < R * N; i++)
        n.x[i] = (float)(i % 7) - 3.0f;
    for (int i = 0; i < N; i++)
        n.weight[i] = 1.0f;
    n.tx = tg_tensor_of(n.x, TG_F32, 2, n.shape);
    n.ty = tg_tensor_of(n.y, TG_F32, 2, n.shape);
    n.tweight = tg_tensor_of(n.weight, TG_F32, 1, &n.columns);
    n.trstd = tg_tensor_of(n.rstd, TG_F32, 1, &n.rows);
    n.args =
        (tg_rms_norm_forward_args){.x = &n.tx, .weight = &n.tweight, .y = &n.ty, .rstd = &n.trstd};
    return &n;
}

/* Runs and tells which implementation did. */
static const char *ran(tg_ctx *ctx)
{
    const tg_status status = tg_rms_norm_forward(ctx, &make()->args);
    return status == TG_OK ? tg_ctx_last_impl(ctx) : tg_status_name(status);
}

static int starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void defaults(tg_ctx *ctx)
{
    EXPECT(strcmp(tg_ctx_last_impl(ctx), "") == 0, "%s", tg_ctx_last_impl(ctx));
    EXPECT(starts(ran(ctx), "cpu/rms_norm_forward"), "%s", ran(ctx));
    EXPECT(strcmp(tg_ctx_device(ctx), "cpu") == 0, "%s", tg_ctx_device(ctx));
}

static void lists(tg_ctx *ctx)
{
    EXPECT(tg_ctx_set_impl(ctx, "ref") == TG_OK && strcmp(ran(ctx), "ref/rms_norm_forward") == 0,
           "%s", ran(ctx));
    EXPECT(tg_ctx_set_impl(ctx, " unfused , cpu ") == TG_OK && starts(ran(ctx), "unfused/"), "%s",
           ran(ctx));
    EXPECT(tg_ctx_set_impl(ctx, "acme,cpu") == TG_ENOTFOUND, "%s", tg_last_error());
    EXPECT(strstr(tg_last_error(), "acme") && strstr(tg_last_error(), "cpu, ref, "), "%s",
           tg_last_error());
    EXPECT(starts(ran(ctx), "unfused/"), "a refused list changes nothing: %s", ran(ctx));
    EXPECT(tg_ctx_set_op_impl(ctx, "rms_norm_forward", "ref") == TG_OK && starts(ran(ctx), "ref/"),
           "%s", ran(ctx));
    EXPECT(tg_ctx_set_op_impl(ctx, "rms_norm", "ref") == TG_ENOTFOUND, "%s", tg_last_error());
    EXPECT(tg_ctx_set_op_impl(ctx, "rms_norm_forward", "cpu/rms_norm_backward") == TG_ENOTFOUND,
           "%s", tg_last_error());
    EXPECT(tg_ctx_set_op_impl(ctx, "rms_norm_forward", NULL) == TG_OK &&
               starts(ran(ctx), "unfused/"),
           "%s", ran(ctx));
    EXPECT(tg_ctx_set_impl(ctx, "") == TG_OK && starts(ran(ctx), "cpu/"), "%s", ran(ctx));
}

static void direct(tg_ctx *ctx)
{
    norm *n = make();
    const int ref = tg_find(ctx, "ref/rms_norm_forward"),
              cpu = tg_find(ctx, "cpu/rms_norm_forward");
    EXPECT(ref >= 0 && cpu >= 0 && ref != cpu, "%d %d", ref, cpu);
    EXPECT(tg_find(ctx, "cpu/rms_norm") < 0 && tg_find(ctx, NULL) < 0,
           "a prefix is no implementation");
    EXPECT(tg_impl_run(ctx, ref, &n->args) == TG_OK &&
               strcmp(tg_ctx_last_impl(ctx), "ref/rms_norm_forward") == 0,
           "%s", tg_last_error());
    tg_ctx_set_impl(ctx, "unfused");
    EXPECT(tg_default_of(ctx, "rms_norm_forward") == cpu, "the default stays reachable");
    tg_ctx_set_impl(ctx, NULL);
    EXPECT(tg_impl_run(ctx, -1, &n->args) == TG_ENOTFOUND, "%s", tg_last_error());
    EXPECT(tg_call(ctx, tg_op_count(), &n->args) == TG_ENOTFOUND, "%s", tg_last_error());
    EXPECT(tg_rms_norm_forward(NULL, &n->args) == TG_EINVAL &&
               strstr(tg_last_error(), "ctx is NULL"),
           "%s", tg_last_error());
}

/* What is for comparison is loaded where it is named, and runs nowhere else. */
static void comparison(tg_ctx *ctx)
{
    static const char *const named[] = {"unfused/rms_norm_forward", "unfused/rms_norm"};
    int route[8];
    for (int i = 0; i < tg_backend_count(); i++)
        EXPECT(strcmp(tg_backend_at(i)->vendor, "unfused"), "nobody has named it");
    EXPECT(tg_find(ctx, named[0]) >= 0 && tg_find(ctx, named[1]) < 0, "%s", tg_last_error());
    const int backend = tg_backend_named("unfused");
    EXPECT(backend >= 0 && strstr(tg_backend_at(backend)->module_path, "libtigon_unfused.so"), "%s",
           tg_last_error());
    EXPECT(tg_backend_named("nobody") < 0 && tg_backend_named(NULL) < 0, "nobody is there");
    EXPECT(tg_find(ctx, "nobody/rms_norm_forward") < 0, "nobody is there");
    tg_ctx *other = new_context();
    tg_ctx_set_device(other, "cpu");
    const int n = tg_resolve(other, tg_op_by_name("rms_norm_forward"), route, 8);
    for (int i = 0; i < n && i < 8; i++)
        EXPECT(!starts(tg_impl_at(route[i])->full_name, "unfused/"), "%s is in an automatic route",
               tg_impl_at(route[i])->full_name);
    EXPECT(starts(ran(other), "cpu/"), "%s", ran(other));
    EXPECT(tg_ctx_set_op_impl(other, "rms_norm_forward", named[0]) == TG_OK &&
               starts(ran(other), named[0]),
           "%s", ran(other));
    tg_ctx_destroy(other);
}

static void ceilings(tg_ctx *ctx)
{
    static const char *const levels[] = {"v2", "v3", "v4", "neon"};
    int tested = 0;
    for (int i = 0; i < 4 && strcmp(tg_cpu_level(), "base") != 0; i++) {
        char full[64];
        snprintf(full, sizeof full, "cpu/rms_norm_forward.%s", levels[i]);
        EXPECT(tg_ctx_set_cpu_max(ctx, NULL) == TG_OK, "%s", tg_last_error());
        const int impl = tg_find(ctx, full);
        if (!tg_impl_supported(ctx, impl))
            continue;
        tested++;
        EXPECT(tg_ctx_set_cpu_max(ctx, levels[i]) == TG_OK && strcmp(ran(ctx), full) == 0, "%s: %s",
               levels[i], ran(ctx));
        tg_ctx_set_cpu_max(ctx, "base");
        EXPECT(tg_impl_run(ctx, impl, &make()->args) == TG_EUNSUPPORTED, "%s ran below the ceiling",
               full);
    }
    EXPECT(tested > 0 || strcmp(tg_cpu_level(), "base") == 0, "no level of %s", tg_cpu_level());
    EXPECT(tg_ctx_set_cpu_max(ctx, "v9") == TG_EINVAL && strstr(tg_last_error(), "v9"), "%s",
           tg_last_error());
    tg_ctx_set_cpu_max(ctx, NULL);
}

/* f64 is for the reference alone: an automatic fallback, and an error where none is allowed. */
static void strictness(tg_ctx *ctx)
{
    int64_t shape[] = {2, 3};
    double x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    const tg_tensor tx = tg_tensor_of(x, TG_F64, 2, shape);
    tg_tensor ty = tg_tensor_of(y, TG_F64, 2, shape);
    const tg_rms_norm_forward_args args = {.x = &tx, .y = &ty};
    EXPECT(tg_rms_norm_forward(ctx, &args) == TG_OK && starts(tg_ctx_last_impl(ctx), "ref/"), "%s",
           tg_last_error());
    tg_ctx_set_strict(ctx, 1);
    EXPECT(tg_rms_norm_forward(ctx, &args) == TG_EUNSUPPORTED &&
               strstr(tg_last_error(), "TIGON_STRICT"),
           "%s", tg_last_error());
    EXPECT(starts(ran(ctx), "cpu/"), "%s", ran(ctx));
    tg_ctx_set_strict(ctx, 0);
    tg_ctx_set_impl(ctx, "cpu");
    EXPECT(tg_rms_norm_forward(ctx, &args) == TG_EUNSUPPORTED &&
               strstr(tg_last_error(), "no implementation of cpu (tg_ctx_set_impl)"),
           "%s", tg_last_error());
    tg_ctx_set_impl(ctx, NULL);
}

static char line[1024];
static int lines;

static void keep(void *user, const char *text)
{
    (void)user;
    lines++;
    snprintf(line, sizeof line, "%s", text);
}

static void verbose(tg_ctx *ctx)
{
    tg_ctx_set_log(ctx, keep, NULL);
    tg_ctx_set_verbose(ctx, 1);
    ran(ctx);
    tg_ctx_set_verbose(ctx, 0);
    ran(ctx);
    EXPECT(lines == 1, "%d lines", lines);
    EXPECT(strstr(line, "cpu/rms_norm_forward") && strstr(line, "x:f32[4x24]") &&
               strstr(line, " ms,TG_OK"),
           "%s", line);
}

static void schema(void)
{
    for (int i = 0; i < tg_op_count(); i++) {
        const tg_op_info *op = tg_op_at(i);
        EXPECT(tg_op_by_name(op->name) == i, "%s", op->name);
        for (int k = 0; k < op->nargs; k++)
            if (op->args[k].over)
                EXPECT(op->args[k].kind == TG_ARG_OUT || op->args[k].kind == TG_ARG_OUT_OPT, "%s",
                       op->args[k].name);
    }
    EXPECT(tg_op_at(-1) == NULL && tg_op_at(tg_op_count()) == NULL && tg_op_by_name(NULL) == -1,
           "bounds");
    const tg_probe *probes;
    const int count = tg_device_probes(&probes);
    for (int i = 0; i < count; i++)
        EXPECT(*probes[i].why, "%s: no reason", probes[i].device);
    EXPECT(strcmp(probes[count - 1].device, "cpu") == 0, "%s", probes[count - 1].device);
}

int main(void)
{
    tg_ctx *ctx = new_context();
    defaults(ctx);
    comparison(ctx);
    lists(ctx);
    direct(ctx);
    ceilings(ctx);
    strictness(ctx);
    verbose(ctx);
    schema();
    EXPECT(tg_ctx_set_threads(ctx, -1) == TG_EINVAL, "%s", tg_last_error());
    EXPECT(tg_ctx_set_fallback(ctx, (tg_fallback)7) == TG_EINVAL, "%s", tg_last_error());
    tg_ctx_destroy(ctx);
    tg_ctx_destroy(NULL);
    return report();
}
