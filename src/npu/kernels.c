/* kernels.c - the kernels that declare their buffers: those of all backends that are loaded. */
#include <string.h>

#include "core/core.h"
#include "tigon/npu.h"

const tg_ub_kernel *tg_ub_kernel_at(int kernel)
{
    const int backends = tg_backend_count(); /* opens the registry */
    for (int b = 0; b < backends && kernel >= 0; b++) {
        const tg_backend *table = &tg_registry_backend(b)->table;
        const tg_ub_kernel *k;
        for (int i = 0; table->ub_kernel && (k = table->ub_kernel(i)); i++)
            if (!kernel--)
                return k;
    }
    return NULL;
}

int tg_ub_kernel_count(void)
{
    int n = 0;
    while (tg_ub_kernel_at(n))
        n++;
    return n;
}

const tg_ub_kernel *tg_ub_kernel_find(const char *name)
{
    const size_t n = strlen(name);
    const tg_ub_kernel *k;
    for (int i = 0; (k = tg_ub_kernel_at(i)); i++)
        if (!strncmp(k->name, name, n) && (!k->name[n] || k->name[n] == '.'))
            return k;
    return NULL;
}
