/* stand_in_model.c - kernels that are launched run on the model of a card.
 *
 *   STAND_IN_MODEL=FOLDER   of libascsim.so and libtigon_ascend_model.so; without it no kernel runs
 *   STAND_IN_SOC            the chip, as without it */
#include <ascsim.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

#define MODEL_FUNCTIONS(X) \
    X(ascsim_open)         \
    X(ascsim_map)          \
    X(ascsim_free)         \
    X(ascsim_launch)       \
    X(ascsim_faults)       \
    X(ascsim_clear_faults) \
    X(ascsim_error)

static struct {
#define X(name) __typeof__(name) *name;
    MODEL_FUNCTIONS(X)
#undef X
    void *kernels;
    ascsim *device;
} model;

static void *library(const char *folder, const char *file)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        violation("STAND_IN_MODEL", dlerror());
    return handle;
}

static int open_model(const char *folder)
{
    static const struct {
        const char *name;
        void **at;
    } functions[] = {
#define X(name) {#name, (void **)&model.name},
        MODEL_FUNCTIONS(X)
#undef X
    };
    const char *soc = getenv("STAND_IN_SOC");
    void *sim = library(folder, "libascsim.so");
    model.kernels = sim ? library(folder, "libtigon_ascend_model.so") : NULL;
    if (!model.kernels)
        return 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        *functions[i].at = dlsym(sim, functions[i].name);
    const ascsim_options options = {.soc = soc ? soc : "910B4", .timing = ASCSIM_TIME_NONE};
    model.device = model.ascsim_open(&options);
    return model.device ? 1 : (violation("STAND_IN_MODEL", model.ascsim_error()), 0);
}

/* The memory of the device that an argument points into; NULL: it is no pointer. */
static const thing *memory_at(uint64_t word)
{
    for (int i = 0; i < SLOTS; i++) {
        const thing *t = &things[i];
        if (t->is == MEMORY && word >= t->words[0] && word < t->words[0] + t->bytes)
            return t;
    }
    return NULL;
}

/* Lends the memory to the model, or ends that; each once, whatever points there. */
static void lend(const thing *args, int begin)
{
    for (int i = 0; i < args->count; i++) {
        const thing *memory = memory_at(args->words[i]);
        int seen = 0;
        for (int k = 0; k < i && memory; k++)
            seen |= memory_at(args->words[k]) == memory;
        if (!memory || seen)
            continue;
        void *host = (void *)(uintptr_t)memory->words[1];
        if (begin)
            model.ascsim_map(model.device, host, memory->bytes, "memory of the device");
        else
            model.ascsim_free(model.device, host);
    }
}

static int report(const char *kernel, int stopped)
{
    const ascsim_fault *faults;
    const int n = model.ascsim_faults(model.device, &faults);
    for (int i = 0; i < n; i++)
        violation(kernel, faults[i].text);
    if (stopped && !n)
        violation(kernel, model.ascsim_error());
    model.ascsim_clear_faults(model.device);
    return n || stopped ? FAILED : 0;
}

int run_on_model(const char *kernel, uint32_t blocks, const thing *args)
{
    const char *folder = getenv("STAND_IN_MODEL");
    ascsim_kernel function;
    ascsim_arg list[MOST_ARGS];
    if (!folder)
        return 0;
    if (!model.device && !open_model(folder))
        return FAILED;
    *(void **)&function = dlsym(model.kernels, kernel);
    if (!function)
        return violation(kernel, "the model's library has no such kernel");
    for (int i = 0; i < args->count; i++)
        list[i] = memory_at(args->words[i]) ? ASCSIM_POINTER((uintptr_t)(args->words[i] - moved))
                                            : ASCSIM_U64(args->words[i]);
    lend(args, 1);
    const int stopped =
        model.ascsim_launch(model.device, kernel, function, blocks, list, args->count);
    lend(args, 0);
    return report(kernel, stopped);
}
