/* Log lines: to the context's sink, the process's, or stderr. */
#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/core.h"

static tg_log_fn process_log;
static void *process_user;

void tg_set_log(tg_log_fn log, void *user)
{
    process_log = log;
    process_user = user;
}

static locale_t plain;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

void tg_format(char *text, size_t size, const char *format, va_list values)
{
    pthread_once(&made, make_plain);
    const locale_t own = plain ? uselocale(plain) : (locale_t)0;
    vsnprintf(text, size, format, values);
    if (own)
        uselocale(own);
}

void tg_log_line(const tg_ctx *ctx, const char *format, ...)
{
    char line[1024];
    va_list values;
    va_start(values, format);
    tg_format(line, sizeof line, format, values);
    va_end(values);
    if (ctx && ctx->log)
        ctx->log(ctx->log_user, line);
    else if (process_log)
        process_log(process_user, line);
    else
        fprintf(stderr, "%s\n", line);
}

/* "f32[8x64]": no comma, which separates the fields of a line */
static const char *describe(const tg_tensor *t, char *text, size_t size)
{
    tg_describe(t, text, size);
    for (char *c = text; *c; c++)
        if (*c == ',')
            *c = 'x';
    return text;
}

/* tigon,cpu/rms_norm_forward.v4,x:f32[8x64] y:f32[8x64],0.0120 ms,TG_OK */
void tg_log_call(tg_ctx *ctx, const reg_impl *impl, const void *args, double seconds,
                 tg_status status)
{
    const tg_op_info *op = &tg_ops[impl->op];
    const op_tensors *list = tg_op_tensors(impl->op);
    const tg_tensor *const *slots = args;
    char text[768] = "", shape[160];
    size_t used = 0;
    for (int i = 0; i < list->count && used < sizeof text; i++) {
        const tg_tensor *t = slots[list->at[i].slot];
        if (t)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%s:%s", used ? " " : "",
                                 op->args[list->at[i].slot].name, describe(t, shape, sizeof shape));
    }
    tg_log_line(ctx, "tigon,%s,%s,%.4f ms,%s", impl->info.full_name, text, seconds * 1e3,
                tg_status_name(status));
}
