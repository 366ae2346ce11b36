/* execute/device.c - opening and closing, global memory, errors. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/check.h"
#include "cores.h"
#include "model/model.h"
#include "move.h"
#include "report/report.h"
#include "time/time.h"

/* Memory begins at a page of the checker, which looks at an access page by page, so that a report
 * is the same wherever the memory lies. */
enum { GUARD = 512, ALIGNMENT = 4096 };

ascsim *ascsim_open(const ascsim_options *options)
{
    static const ascsim_options defaults;
    options = options ? options : &defaults;
    const char *soc = options->soc ? options->soc : "910B4";
    const double cores = ascsim_chip_fact(soc, "vector_cores");
    if (cores < 1) {
        const char *why = ascsim_chip_refused(soc);
        sim_error(
            "ascsim_open: soc is \"%s\"%s%s, expected a chip that the model knows, such as 910B4",
            soc, why ? ", which " : "", why ? why : "");
        return NULL;
    }
    if (options->ub_bytes < 0 || options->ub_bytes > SIM_UB_BYTES) {
        sim_error("ascsim_open: ub_bytes is %lld, expected 0 to %d", (long long)options->ub_bytes,
                  SIM_UB_BYTES);
        return NULL;
    }
    ascsim *device = calloc(1, sizeof *device);
    char *name = strdup(soc);
    if (!device || !name) {
        free(device);
        free(name);
        sim_error("ascsim_open: no memory");
        return NULL;
    }
    device->options = *options;
    device->options.soc = device->soc = name;
    device->cores = (int)cores;
    if (!device->options.ub_bytes)
        device->options.ub_bytes = (int64_t)ascsim_chip_fact(soc, "ub_usable_bytes");
    device->load3d_channels = (int64_t)ascsim_chip_fact(soc, "load3d_channels");
    if (device->options.threads <= 0) {
        const long processors = sysconf(_SC_NPROCESSORS_ONLN);
        device->options.threads = processors > 0 ? (int)processors : 1;
    }
    pthread_mutex_init(&device->lock, NULL);
    return device;
}

static void drop_region(sim_region *region)
{
    sim_written_free(region);
    if (region->owned)
        free(region->base);
}

void ascsim_close(ascsim *device)
{
    if (!device)
        return;
    sim_workers_free(device);
    sim_check_close(device);
    sim_time_close(device);
    sim_faults_free(device->faults);
    sim_profile_free(device->profile);
    for (int i = 0; i < device->region_count; i++)
        drop_region(&device->regions[i]);
    free(device->regions);
    pthread_mutex_destroy(&device->lock);
    free((char *)device->soc);
    free(device);
}

/* ---- global memory ---- */

static int add_region(ascsim *device, void *memory, size_t bytes, const char *name, int owned)
{
    sim_region *regions =
        realloc(device->regions, (size_t)(device->region_count + 1) * sizeof *regions);
    if (!regions)
        return sim_error("no memory for the list of regions");
    device->regions = regions;
    int at = device->region_count;
    while (at > 0 && regions[at - 1].base > (unsigned char *)memory)
        at--;
    memmove(regions + at + 1, regions + at, (size_t)(device->region_count - at) * sizeof *regions);
    device->region_count++;
    regions[at] = (sim_region){.base = memory, .bytes = bytes, .owned = owned};
    snprintf(regions[at].name, sizeof regions[at].name, "%s", name ? name : "unnamed");
    if (owned)
        sim_written_begin(&regions[at]);
    return 0;
}

void *ascsim_alloc(ascsim *device, size_t bytes, const char *name)
{
    const size_t needed = (bytes + GUARD + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    void *memory = needed > bytes ? aligned_alloc(ALIGNMENT, needed) : NULL;
    if (!memory) {
        sim_error("ascsim_alloc: no memory for %zu bytes (%s)", bytes, name ? name : "unnamed");
        return NULL;
    }
    sim_poison(memory, needed); /* a kernel that reads it does so with one result */
    if (add_region(device, memory, bytes, name, 1)) {
        free(memory);
        return NULL;
    }
    return memory;
}

int ascsim_map(ascsim *device, void *memory, size_t bytes, const char *name)
{
    if (!memory || !bytes)
        return sim_error("ascsim_map: %s is %p, %zu bytes, expected memory",
                         name ? name : "unnamed", memory, bytes);
    sim_left_host(device, memory, bytes);
    return add_region(device, memory, bytes, name, 0);
}

void ascsim_free(ascsim *device, void *memory)
{
    for (int i = device->region_count - 1; i >= 0; i--)
        if (device->regions[i].base == memory) {
            sim_left_host(device, memory, device->regions[i].bytes);
            drop_region(&device->regions[i]);
            device->region_count--;
            memmove(device->regions + i, device->regions + i + 1,
                    (size_t)(device->region_count - i) * sizeof *device->regions);
            return;
        }
}

void ascsim_written(ascsim *device, void *memory, size_t bytes)
{
    sim_region *region = (sim_region *)sim_region_of(device, memory);
    if (region)
        sim_written_add(region, memory, bytes);
    sim_left_host(device, memory, bytes);
}

int ascsim_stream(ascsim *device, const void *memory)
{
    for (int i = 0; i < device->region_count; i++) {
        if (device->regions[i].base == memory) {
            device->regions[i].streams = 1;
            return 0;
        }
    }
    return sim_error("ascsim_stream: %p is not where a buffer of this device begins", memory);
}
