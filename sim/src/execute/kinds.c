/* execute/kinds.c - which cores a kernel's blocks are: the sections of kernels' libraries. */
#include <stdlib.h>

#include "kinds.h"

typedef struct section {
    const char *from, *to;
    sim_grid grid;
} section;

static struct {
    pthread_mutex_t lock;
    section *sections;
    int count;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

void asc_kernels(const void *from, const void *to, int cubes, int vectors, int scheduler)
{
    pthread_mutex_lock(&table.lock);
    int kept = 0;
    for (int i = 0; i < table.count; i++)
        if (table.sections[i].from != from)
            table.sections[kept++] = table.sections[i];
    table.count = kept;
    section *more = realloc(table.sections, (size_t)(kept + 1) * sizeof *more);
    if (more) {
        table.sections = more;
        if (cubes + vectors)
            more[table.count++] = (section){from, to, {cubes, vectors, scheduler}};
    }
    pthread_mutex_unlock(&table.lock);
}

sim_grid sim_grid_of(ascsim_kernel kernel)
{
    const char *at = (const char *)(uintptr_t)kernel;
    sim_grid grid = {0, 1, 0};
    pthread_mutex_lock(&table.lock);
    for (int i = 0; i < table.count; i++)
        if (at >= table.sections[i].from && at < table.sections[i].to)
            grid = table.sections[i].grid;
    pthread_mutex_unlock(&table.lock);
    return grid;
}

void ascsim_kernel_cores(ascsim_kernel kernel, int *cubes, int *vectors)
{
    const sim_grid grid = sim_grid_of(kernel);
    *cubes = grid.cubes;
    *vectors = grid.vectors;
}
