/* ascend.c - tensors as memory; files that belong to the library. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ascend.h"
#include "kernels/shared/asc_any.args.h"

const tg_host *ascend_host;

ascend_groups ascend_groups_of(const tg_tensor *t)
{
    const tg_planes p = tg_planes_of(t);
    if (p.inner < 1)
        return (ascend_groups){1, 0};
    return (ascend_groups){p.inner, p.outer / (int64_t)tg_type_size(p.type)};
}

int64_t ascend_any(const tg_tensor *t)
{
    switch (t ? tg_type_of(t) : TG_F32) {
    case TG_BF16:
        return ASC_ANY_BF16;
    case TG_F16:
        return ASC_ANY_F16;
    default:
        return ASC_ANY_F32;
    }
}

ascend_memory ascend_memory_of(const tg_tensor *t)
{
    if (!t)
        return (ascend_memory){NULL, 0};
    return (ascend_memory){tg_data(t), tg_extent(t)};
}

tg_status ascend_convert(tg_ctx *ctx, const tg_tensor *from, const tg_tensor *to)
{
    const tg_rows in = tg_rows_of(from), out = tg_rows_of(to);
    int64_t shape[] = {1, in.rows, in.n}, strides[] = {in.rows * in.stride, in.stride, 1},
            of_rows[] = {out.stride, 1};
    tg_tensor x = tg_tensor_of(in.data, in.type, 3, shape),
              y = tg_tensor_of(out.data, out.type, 2, &shape[1]);
    x.strides = strides;
    y.strides = of_rows;
    x.device = from->device;
    y.device = to->device;
    return ascend_sum_rows_forward(ctx, &(tg_sum_rows_forward_args){.x = &x, .y = &y, .scale = 1});
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
