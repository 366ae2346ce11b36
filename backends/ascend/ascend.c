/* ascend.c - services to the host files of the operators. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ascend.h"

const tg_host *ascend_host;

/* Distance of two rows: the stride of the innermost leading dimension that has more than one entry. */
static int64_t row_stride(const tg_tensor *t)
{
    for (int i = t->ndim - 2; i >= 0 && t->strides; i--)
        if (t->shape[i] > 1)
            return t->strides[i];
    return t->shape[t->ndim - 1];
}

ascend_impls ascend_rows_of(const tg_tensor *t, const char *name)
{
    if (!t)
        return (ascend_impls){.name = name};
    ascend_impls r = {(char *)t->data + t->byte_offset, tg_type_of(t), 1, 1, 1, 0, name};
    if (t->ndim > 0) {
        r.n = t->shape[t->ndim - 1];
        r.rows = r.n ? tg_numel(t) / r.n : 0;
        r.stride = row_stride(t);
    }
    if (r.rows > 0)
        r.bytes = (size_t)((r.rows - 1) * r.stride + r.n) * tg_type_size(r.type);
    return r;
}

const char *ascend_type_suffix(int type)
{
    switch (type) {
    case TG_F32:
        return "_f32";
    case TG_BF16:
        return "_bf16";
    case TG_F16:
        return "_f16";
    case TG_I64: /* of indices alone */
        return "_i64";
    default:
        return NULL;
    }
}

tg_status ascend_runtime_for(const tg_tensor *t, const ascend_runtime **runtime)
{
    *runtime = t->device.device_type == TG_DEVICE_CPU ? &ascend_model : &ascend_card;
    if ((*runtime)->info())
        return TG_OK;
    return ascend_host->fail(TG_EUNSUPPORTED, "the %s is not in use: no context has chosen it",
                             *runtime == &ascend_model ? "model (device npu-model)"
                                                       : "card (device npu)");
}

/* The last plan of this thread that no launch has followed yet. */
static _Thread_local struct {
    const tg_ub_kernel *kernel; /* NULL: there is none */
    tg_ub_problem problem;
    tg_ub_layout layout;
} planned;

tg_ub_problem ascend_problem(const ascend_runtime *runtime, int64_t rows, int64_t columns, int type,
                             uint32_t options)
{
    const ascend_info *info = runtime->info();
    return (tg_ub_problem){
        .rows = rows,
        .columns = columns,
        .dtype_bytes = (int)tg_type_size(type),
        .cores = info->cores,
        .ub_bytes = info->ub_bytes,
        .options = options,
    };
}

tg_status ascend_plan(const ascend_runtime *runtime, const tg_ub_kernel *kernel, int64_t rows,
                      int64_t columns, int type, uint32_t options, tg_ub_layout *layout)
{
    if (!ascend_type_suffix(type)) /* f64 is the reference's */
        return ascend_host->fail(TG_EUNSUPPORTED,
                                 "%s: there are kernels for f32, bf16 and f16 alone", kernel->name);
    const tg_ub_problem problem = ascend_problem(runtime, rows, columns, type, options);
    ASCEND_TRY(tg_ub_plan(kernel, &problem, layout));
    planned.kernel = kernel;
    planned.problem = problem;
    planned.layout = *layout;
    return TG_OK;
}

/* ---- launches, and who watches them ---- */

static struct {
    tg_npu_watch_fn tell;
    void *user;
} watch;
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;

void tg_npu_watch(tg_npu_watch_fn tell, void *user)
{
    pthread_mutex_lock(&watch_lock);
    watch.tell = tell;
    watch.user = user;
    pthread_mutex_unlock(&watch_lock);
}

static int is_watched(void)
{
    pthread_mutex_lock(&watch_lock);
    const int watched = watch.tell != NULL;
    pthread_mutex_unlock(&watch_lock);
    return watched;
}

static void tell_watch(const tg_npu_launch *launch)
{
    pthread_mutex_lock(&watch_lock);
    if (watch.tell)
        watch.tell(watch.user, launch);
    pthread_mutex_unlock(&watch_lock);
}

static void log_time(tg_ctx *ctx, const tg_npu_launch *t)
{
    if (t->high_us > t->low_us)
        ascend_host->log(ctx, "tigon,%s,%lld blocks,%s: %.1f us (%.1f to %.1f)", t->kernel,
                         (long long)t->blocks, t->clock, t->us, t->low_us, t->high_us);
    else
        ascend_host->log(ctx, "tigon,%s,%lld blocks,%s: %.1f us", t->kernel, (long long)t->blocks,
                         t->clock, t->us);
}

tg_status ascend_run(tg_ctx *ctx, const ascend_runtime *runtime, const char *kernel, int type,
                     int64_t blocks, const ascend_arg *args, int nargs)
{
    char name[96];
    snprintf(name, sizeof name, "%s%s", kernel, ascend_type_suffix(type));
    tg_npu_launch took = {.kernel = name,
                          .clock = runtime->label,
                          .soc = runtime->info()->soc,
                          .blocks = blocks,
                          .bound = ""};
    if (planned.kernel) {
        took.plan = planned.kernel;
        took.problem = &planned.problem;
        took.layout = &planned.layout;
        planned.kernel = NULL;
    }
    const int verbose = ascend_host->verbose(ctx), watched = is_watched();
    const ascend_launch launch = {
        name, blocks, args, nargs, ascend_host->stream(ctx), verbose || watched ? &took : NULL};
    ASCEND_TRY(runtime->launch(&launch));
    if (verbose)
        log_time(ctx, &took);
    if (watched)
        tell_watch(&took);
    return TG_OK;
}

/* ---- files ---- */

static int there(const char *folder, const char *file, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder, file);
    return access(path, R_OK) == 0;
}

/* The folder of the library, or program, that this code is in. */
static void own_folder(char *folder, size_t size)
{
    Dl_info here;
    const char *path = dladdr((void *)&ascend_card, &here) && here.dli_fname ? here.dli_fname : ".";
    snprintf(folder, size, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(folder, size, ".");
}

int ascend_find_file(const char *variable, const char *file, char *path, size_t size)
{
    const char *said = variable ? getenv(variable) : NULL;
    if (said && *said) /* said is said: no other place is tried */
        return there(said, file, path, size) ? 0 : -1;
    char folder[512];
    own_folder(folder, sizeof folder);
    if (there(folder, file, path, size))
        return 0;
    if (*ASCEND_LIBRARY_DIR && there(ASCEND_LIBRARY_DIR, file, path, size))
        return 0;
    there(folder, file, path, size); /* the place to name */
    return -1;
}
