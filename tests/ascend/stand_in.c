/* A stand-in for CANN's libascendcl.so, built under that name: enough of its documented functions for the host path of the
 * backend, on a device that does not exist. It runs no kernel: it writes down every call, and what is wrong
 * with it. Device memory is host memory at a constant distance, so that a plain access fails.
 *
 *   STAND_IN_RECORD=FILE     a line a call; "VIOLATION ..." where a rule of the run time is broken
 *   STAND_IN_FAIL=NAME       that function answers error 507899
 *   STAND_IN_FAIL=NAME:N     at its Nth call alone
 *   STAND_IN_DEVICES, STAND_IN_CORES, STAND_IN_UB, STAND_IN_SOC   what the card says of itself */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum {
    FAILED = 507899,
    INVALID = 100000,
    REPEATED = 100002,
    NO_DEVICE = 107002, /* no device is set */
    SLOTS = 256,
    MOST_ARGS = 64
};

static const uintptr_t moved = (uintptr_t)1 << 60;

typedef enum kind { NOTHING, MEMORY, BINARY, FUNCTION, ARGS, EVENT } kind;
static const char *const kinds[] = {"nothing", "memory", "binary", "function", "args", "event"};

/* Whatever a handle stands for. */
typedef struct thing {
    kind is;
    size_t bytes;  /* of memory */
    char name[96]; /* of a function */
    int count;     /* of arguments */
    int done;      /* arguments are final; an event is recorded */
    uint64_t words[MOST_ARGS];
} thing;

static thing things[SLOTS];
static int initialised, device_is_set, violations;

/* ---- the record ---- */

static void record(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void record(const char *format, ...)
{
    const char *path = getenv("STAND_IN_RECORD");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    va_list values;
    va_start(values, format);
    vfprintf(f, format, values);
    va_end(values);
    fputc('\n', f);
    fclose(f);
}

static int violation(const char *function, const char *what)
{
    violations++;
    record("VIOLATION %s: %s", function, what);
    return INVALID;
}

static int64_t number(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

/* Counts calls of a function; 1 if this one is to fail. */
static int fails(const char *function)
{
    static struct {
        char name[64];
        int calls;
    } seen[SLOTS];
    const char *wanted = getenv("STAND_IN_FAIL");
    int i = 0;
    while (i < SLOTS - 1 && *seen[i].name && strcmp(seen[i].name, function) != 0)
        i++;
    snprintf(seen[i].name, sizeof seen->name, "%s", function);
    seen[i].calls++;
    const size_t n = strlen(function);
    if (!wanted || strncmp(wanted, function, n) != 0 || (wanted[n] && wanted[n] != ':'))
        return 0;
    return !wanted[n] || atoi(wanted + n + 1) == seen[i].calls;
}

/* A call of a function that needs aclInit, and, but for a few, a device. */
#define BEGIN(function, needs_device)                             \
    do {                                                          \
        record("%s", function);                                   \
        if (!initialised)                                         \
            return violation(function, "aclInit was not called"); \
        if ((needs_device) && !device_is_set)                     \
            return violation(function, "no device is set");       \
        if (fails(function))                                      \
            return FAILED;                                        \
    } while (0)

/* ---- things ---- */

static void *create(kind is)
{
    for (int i = 0; i < SLOTS; i++)
        if (things[i].is == NOTHING) {
            memset(&things[i], 0, sizeof things[i]);
            things[i].is = is;
            return (void *)((uintptr_t)&things[i] + moved);
        }
    return NULL;
}

static thing *find(const void *handle, kind is)
{
    for (int i = 0; i < SLOTS; i++)
        if (things[i].is == is && handle == (void *)((uintptr_t)&things[i] + moved))
            return &things[i];
    return NULL;
}

static int destroy(const char *function, void *handle, kind is)
{
    thing *t = find(handle, is);
    if (!t)
        return violation(function, "an unknown handle, or one that was given back before");
    t->is = NOTHING;
    return 0;
}

/* The bytes from this address to the end of its memory; 0 if it is not the device's. */
static size_t room_at(uint64_t address)
{
    for (int i = 0; i < SLOTS; i++) {
        const uint64_t base = things[i].words[0];
        if (things[i].is == MEMORY && address >= base && address < base + things[i].bytes)
            return (size_t)(base + things[i].bytes - address);
    }
    return 0;
}

/* ---- the run time ---- */

API const char *aclGetRecentErrMsg(void)
{
    return "the stand-in was told to fail";
}

API int aclInit(const char *config)
{
    record("aclInit");
    if (config)
        return violation("aclInit", "a configuration, expected NULL");
    if (fails("aclInit"))
        return FAILED;
    return initialised++ ? REPEATED : 0;
}

API int aclFinalize(void)
{
    BEGIN("aclFinalize", 0);
    initialised = 0;
    return 0;
}

API int aclrtGetDeviceCount(uint32_t *count)
{
    BEGIN("aclrtGetDeviceCount", 0);
    *count = (uint32_t)number("STAND_IN_DEVICES", 1);
    return 0;
}

API int aclrtGetDevice(int32_t *device)
{
    BEGIN("aclrtGetDevice", 0);
    *device = 0;
    return device_is_set ? 0 : NO_DEVICE;
}

API int aclrtSetDevice(int32_t device)
{
    BEGIN("aclrtSetDevice", 0);
    if (device < 0 || device >= number("STAND_IN_DEVICES", 1))
        return violation("aclrtSetDevice", "there is no such device");
    device_is_set = 1;
    return 0;
}

API int aclrtResetDevice(int32_t device)
{
    (void)device;
    BEGIN("aclrtResetDevice", 1);
    device_is_set = 0;
    return 0;
}

API const char *aclrtGetSocName(void)
{
    const char *name = getenv("STAND_IN_SOC");
    record("aclrtGetSocName");
    return name ? name : "Ascend910B4";
}

API int aclrtGetDeviceInfo(uint32_t device, int attribute, int64_t *value)
{
    enum { VECTOR_CORES = 201, UB_OF_A_CORE = 204 };
    (void)device;
    BEGIN("aclrtGetDeviceInfo", 0);
    if (attribute == VECTOR_CORES)
        *value = number("STAND_IN_CORES", 40);
    else if (attribute == UB_OF_A_CORE)
        *value = number("STAND_IN_UB", 196608);
    else
        return violation("aclrtGetDeviceInfo", "an attribute that nobody should ask for");
    return 0;
}

API int aclrtMalloc(void **memory, size_t bytes, int policy)
{
    BEGIN("aclrtMalloc", 1);
    if (bytes == 0 || policy != 0)
        return violation("aclrtMalloc", "expected bytes, and the policy of huge pages first");
    void *handle = create(MEMORY);
    thing *t = find(handle, MEMORY);
    t->bytes = bytes;
    t->words[1] = (uint64_t)(uintptr_t)malloc(bytes);
    t->words[0] = t->words[1] + moved;
    *memory = (void *)(uintptr_t)t->words[0];
    return 0;
}

API int aclrtFree(void *memory)
{
    BEGIN("aclrtFree", 1);
    for (int i = 0; i < SLOTS; i++)
        if (things[i].is == MEMORY && things[i].words[0] == (uint64_t)(uintptr_t)memory) {
            free((void *)(uintptr_t)things[i].words[1]);
            things[i].is = NOTHING;
            return 0;
        }
    return violation("aclrtFree", "memory that is not there, or was freed before");
}

/* The side of a copy as host memory; NULL if it is not what the kind of copy says. */
static char *side(const void *p, size_t bytes, int on_device)
{
    if (!on_device)
        return (uintptr_t)p < moved ? (char *)p : NULL;
    return room_at((uint64_t)(uintptr_t)p) >= bytes ? (char *)p - moved : NULL;
}

API int aclrtMemcpy(void *dst, size_t room, const void *src, size_t bytes, int how)
{
    BEGIN("aclrtMemcpy", 1);
    char *to = side(dst, bytes, how == 1 || how == 3), *from = side(src, bytes, how >= 2);
    if (how < 0 || how > 3 || !to || !from || room < bytes)
        return violation("aclrtMemcpy", "addresses or sizes that do not fit the kind of copy");
    memcpy(to, from, bytes);
    return 0;
}

API int aclrtSynchronizeStream(void *stream)
{
    (void)stream;
    BEGIN("aclrtSynchronizeStream", 1);
    return 0;
}

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
    *ms = 0.125f;
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
    if (!options || options->count != 1 || options->list->kind != 2 ||
        options->list->value[0] != 0x41415246u)
        return violation("aclrtBinaryLoadFromFile", "expected the magic of vector cores");
    *binary = create(BINARY);
    return 0;
}

API int aclrtBinaryUnLoad(void *binary)
{
    BEGIN("aclrtBinaryUnLoad", 1);
    return destroy("aclrtBinaryUnLoad", binary, BINARY);
}

API int aclrtBinaryGetFunction(const void *binary, const char *name, void **function)
{
    BEGIN("aclrtBinaryGetFunction", 1);
    if (!find(binary, BINARY))
        return violation("aclrtBinaryGetFunction", "the binary is not loaded");
    *function = create(FUNCTION);
    snprintf(find(*function, FUNCTION)->name, sizeof things->name, "%s", name);
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
    (void)stream;
    BEGIN("aclrtLaunchKernelWithConfig", 1);
    const thing *f = find(function, FUNCTION), *a = find(args, ARGS);
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
    record_launch(f, blocks, a);
    return destroy("aclrtLaunchKernelWithConfig", args, ARGS);
}

/* ---- the end of the process: what is left over ---- */

__attribute__((destructor)) static void end(void)
{
    for (int i = 0; i < SLOTS; i++)
        if (things[i].is == MEMORY || things[i].is == EVENT || things[i].is == BINARY ||
            (things[i].is == ARGS && !getenv("STAND_IN_FAIL")))
            record("VIOLATION at the end: %s is left", kinds[things[i].is]);
    record("end, %d violations", violations);
}
