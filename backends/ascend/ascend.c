/* ascend.c - views of tensors; files that belong to the library. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ascend.h"
#include "kernels/shared/asc_any.args.h"

const tg_host *ascend_host;

/* Distance of two rows: the stride of the innermost leading dimension that has more than one entry. */
static int64_t row_stride(const tg_tensor *t)
{
    for (int i = t->ndim - 2; i >= 0 && t->strides; i--)
        if (t->shape[i] > 1)
            return t->strides[i];
    return t->shape[t->ndim - 1];
}

/* Elements from the first to the last row. */
static int64_t extent(const tg_tensor *t)
{
    int64_t elements = 0;
    if (!t->strides)
        return tg_numel(t) - t->shape[t->ndim - 1];
    for (int i = 0; i < t->ndim - 1; i++)
        elements += (t->shape[i] - 1) * t->strides[i];
    return elements;
}

ascend_rows ascend_rows_of(const tg_tensor *t)
{
    if (!t)
        return (ascend_rows){.data = NULL};
    ascend_rows r = {(char *)t->data + t->byte_offset, tg_type_of(t), 1, 1, 1, 0};
    if (t->ndim > 0) {
        r.n = t->shape[t->ndim - 1];
        r.rows = r.n ? tg_numel(t) / r.n : 0;
        r.stride = row_stride(t);
    }
    if (r.rows > 0)
        r.bytes = (size_t)(extent(t) + r.n) * tg_type_size(r.type);
    return r;
}

ascend_groups ascend_groups_of(const tg_tensor *t)
{
    ascend_groups g = {1, 0};
    int i = t ? t->ndim - 2 : -1;
    const int64_t stride = i < 0 ? 0 : row_stride(t);
    for (; i >= 0 && (t->shape[i] <= 1 || !t->strides || t->strides[i] == g.rows * stride); i--)
        g.rows *= t->shape[i];
    for (; i >= 0 && !g.stride; i--)
        g.stride = t->shape[i] > 1 ? t->strides[i] : 0;
    if (g.rows < 1)
        g.rows = 1;
    return g;
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
    return (ascend_memory){(char *)t->data + t->byte_offset,
                           (size_t)tg_numel(t) * tg_type_size(tg_type_of(t))};
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
