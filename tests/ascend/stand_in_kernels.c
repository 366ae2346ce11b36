/* stand_in_kernels.c - events, and kernels that are loaded and launched: run on the
 * model, or not at all. */
#include <stdio.h>
#include <string.h>

#include "stand_in.h"

/* ---- events ---- */

API int aclrtCreateEventExWithFlag(void **event, uint32_t flag)
{
    BEGIN("aclrtCreateEventExWithFlag", 1);
    if (flag != 8)
        return violation("aclrtCreateEventExWithFlag", "an event without time");
    *event = create(EVENT);
    return 0;
}

API int aclrtDestroyEvent(void *event)
{
    BEGIN("aclrtDestroyEvent", 1);
    return destroy("aclrtDestroyEvent", event, EVENT);
}

API int aclrtRecordEvent(void *event, void *stream)
{
    (void)stream;
    BEGIN("aclrtRecordEvent", 1);
    thing *t = find(event, EVENT);
    if (!t)
        return violation("aclrtRecordEvent", "an unknown event");
    t->done = 1;
    t->us = model_is_card() ? model_us() : 0;
    return 0;
}

API int aclrtSynchronizeEvent(void *event)
{
    BEGIN("aclrtSynchronizeEvent", 1);
    const thing *t = find(event, EVENT);
    return t && t->done ? 0 : violation("aclrtSynchronizeEvent", "an event never recorded");
}

API int aclrtEventElapsedTime(float *ms, void *from, void *to)
{
    BEGIN("aclrtEventElapsedTime", 1);
    const thing *a = find(from, EVENT), *b = find(to, EVENT);
    if (!a || !b || !a->done || !b->done)
        return violation("aclrtEventElapsedTime", "an event never recorded");
    *ms = model_is_card() ? (float)((b->us - a->us) * 1e-3) : 0.125f;
    return 0;
}

/* ---- kernels ---- */

typedef struct load_option {
    int kind;
    uint32_t value[4];
} load_option;
typedef struct load_options {
    load_option *list;
    size_t count;
} load_options;

API int aclrtBinaryLoadFromFile(const char *path, load_options *options, void **binary)
{
    BEGIN("aclrtBinaryLoadFromFile", 1);
    FILE *f = fopen(path, "r");
    if (!f)
        return violation("aclrtBinaryLoadFromFile", "there is no such file");
    fclose(f);
    const uint32_t magic = strstr(path, "cube")  ? 0x41494343u
                           : strstr(path, "mix") ? 0x43554245u
                                                 : 0x41415246u;
    if (!options || options->count != 1 || options->list->kind != 2 ||
        options->list->value[0] != magic)
        return violation("aclrtBinaryLoadFromFile", "expected the magic of the file's cores");
    *binary = create(BINARY);
    if (!model_is_card())
        return 0;
    void *kernels = model_open_kernels(path);
    find(*binary, BINARY)->words[0] = (uint64_t)(uintptr_t)kernels;
    return kernels ? 0 : FAILED;
}

API int aclrtBinaryUnLoad(void *binary)
{
    BEGIN("aclrtBinaryUnLoad", 1);
    return destroy("aclrtBinaryUnLoad", binary, BINARY);
}

API int aclrtBinaryGetFunction(const void *binary, const char *name, void **function)
{
    BEGIN("aclrtBinaryGetFunction", 1);
    const thing *from = find(binary, BINARY);
    if (!from)
        return violation("aclrtBinaryGetFunction", "the binary is not loaded");
    void *kernel = model_is_card() ? model_kernel((void *)(uintptr_t)from->words[0], name) : NULL;
    if (model_is_card() && !kernel)
        return FAILED;
    *function = create(FUNCTION);
    find(*function, FUNCTION)->words[0] = (uint64_t)(uintptr_t)kernel;
    snprintf(find(*function, FUNCTION)->name, sizeof things->name, "%s", name);
    return 0;
}

API int aclrtGetHardwareSyncAddr(void **address)
{
    BEGIN("aclrtGetHardwareSyncAddr", 1);
    *address = (void *)(uintptr_t)STAND_IN_SYNC;
    return 0;
}

API int aclrtKernelArgsInit(void *function, void **args)
{
    BEGIN("aclrtKernelArgsInit", 1);
    if (!find(function, FUNCTION))
        return violation("aclrtKernelArgsInit", "an unknown function");
    *args = create(ARGS);
    return 0;
}

API int aclrtKernelArgsAppend(void *args, void *value, size_t bytes, void **parameter)
{
    BEGIN("aclrtKernelArgsAppend", 1);
    thing *t = find(args, ARGS);
    if (!t || t->done || t->count == MOST_ARGS)
        return violation("aclrtKernelArgsAppend", "unknown, final or full arguments");
    if (bytes != 8 || !parameter)
        return violation("aclrtKernelArgsAppend", "an argument that is not of 8 bytes");
    memcpy(&t->words[t->count++], value, bytes);
    *parameter = t;
    return 0;
}

API int aclrtKernelArgsFinalize(void *args)
{
    BEGIN("aclrtKernelArgsFinalize", 1);
    thing *t = find(args, ARGS);
    if (!t || t->done)
        return violation("aclrtKernelArgsFinalize", "unknown or final arguments");
    t->done = 1;
    return 0;
}

/* "launch swiglu_forward_f32 40 memory:2048 ... 12": a pointer is told by the room behind it */
static void record_launch(const thing *f, uint32_t blocks, const thing *a)
{
    char text[2048];
    int used = snprintf(text, sizeof text, "launch %s %u", f->name, blocks);
    for (int i = 0; i < a->count; i++)
        used += a->words[i] < moved ? snprintf(text + used, sizeof text - (size_t)used, " %llu",
                                               (unsigned long long)a->words[i])
                                    : snprintf(text + used, sizeof text - (size_t)used,
                                               " memory:%zu", room_at(a->words[i]));
    record("%s", text);
}

API int aclrtLaunchKernelWithConfig(void *function, uint32_t blocks, void *stream, void *config,
                                    void *args, void *reserved)
{
    BEGIN("aclrtLaunchKernelWithConfig", 1);
    const thing *f = find(function, FUNCTION), *a = find(args, ARGS), *s = find(stream, STREAM);
    if (!f || !a || !a->done)
        return violation("aclrtLaunchKernelWithConfig",
                         "an unknown function, or arguments that are "
                         "not final");
    if (blocks < 1 || blocks > 65535 || config || reserved)
        return violation("aclrtLaunchKernelWithConfig",
                         "blocks, configuration or what is reserved");
    for (int i = 0; i < a->count; i++)
        if (a->words[i] >= moved && a->words[i] < 2 * moved && !room_at(a->words[i]))
            return violation("aclrtLaunchKernelWithConfig", "a pointer to no memory of the device");
    if (!is_here("aclrtLaunchKernelWithConfig", f) || !is_here("aclrtLaunchKernelWithConfig", s))
        return INVALID;
    if (s)
        record("stream %td of device %d", s - things, (int)s->device);
    record_launch(f, blocks, a);
    const int failed = model_is_card() ? model_launch(f, blocks, a) : 0;
    return destroy("aclrtLaunchKernelWithConfig", args, ARGS) || failed ? FAILED : 0;
}
