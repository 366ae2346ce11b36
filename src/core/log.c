/* Log lines: to the context's sink, the process's, or stderr. */
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

void tg_log_line(const tg_ctx *ctx, const char *format, ...)
{
    char line[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (ctx && ctx->log)
        ctx->log(ctx->log_user, line);
    else if (process_log)
        process_log(process_user, line);
    else
        fprintf(stderr, "%s\n", line);
}

/* tigon,cpu/rms_norm_forward.v4,x:f32[8,64] y:f32[8,64],0.012 ms,TG_OK */
void tg_log_call(tg_ctx *ctx, const reg_row *row, const void *args, double seconds,
                 tg_status status)
{
    const tg_op_info *op = &tg_ops[row->op];
    const op_tensors *list = tg_op_tensors(row->op);
    const tg_tensor *const *slots = args;
    char text[768] = "", shape[160];
    size_t used = 0;
    for (int i = 0; i < list->count && used < sizeof text; i++) {
        const tg_tensor *t = slots[list->at[i].slot];
        if (t)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s:%s", used ? " " : "",
                                     op->args[list->at[i].slot].name,
                                     tg_describe(t, shape, sizeof shape));
    }
    tg_log_line(ctx, "tigon,%s,%s,%.4f ms,%s", row->info.full_name, text, seconds * 1e3,
                tg_status_name(status));
}
