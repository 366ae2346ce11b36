/* Which accelerators are here: asked of their drivers' libraries, loaded at run time. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"

static const struct {
    const char *name;
    int type;
} device_types[] = {{"cpu", TG_DEVICE_CPU},    {"cuda", TG_DEVICE_CUDA}, {"npu", TG_DEVICE_ASCEND},
                    {"xpu", TG_DEVICE_ONEAPI}, {"rocm", TG_DEVICE_ROCM}, {"ext", TG_DEVICE_EXT}};

int tg_device_type_is_known(int device_type)
{
    for (size_t i = 0; i < sizeof device_types / sizeof *device_types; i++)
        if (device_types[i].type == device_type)
            return 1;
    return 0;
}

tg_words tg_device_words(int device_type)
{
    tg_words w;
    snprintf(w.text, sizeof w.text, "device type %d", device_type);
    for (size_t i = 0; i < sizeof device_types / sizeof *device_types; i++)
        if (device_types[i].type == device_type)
            snprintf(w.text, sizeof w.text, "%s", device_types[i].name);
    return w;
}

static const struct {
    const char *device, *remedy;
} left_out[] = {
    {"cuda", "its library is not here; `make cuda` builds it, for Python "
             "`pip install . -C cmake.define.TIGON_CUDA=ON` does; both need nvcc, and no card"},
    {"npu", "this build has none; -DTIGON_ASCEND=ON builds it"},
    {"xpu", "Tigon has none of its own; TIGON_BACKEND_PATH names a plug-in"},
    {"npu-model", "this build has no model of a card; -DTIGON_ASCEND_MODEL=ON builds it"},
};

const char *tg_device_remedy(const char *device)
{
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (strcmp(left_out[i].device, device) == 0)
            return left_out[i].remedy;
    return NULL;
}

/* ---- one function a driver: number of devices, or -1 with the reason in `why` ---- */

static void *symbol(void *library, const char *name, char *why, size_t size)
{
    void *p = dlsym(library, name);
    if (!p)
        snprintf(why, size, "has no %s", name);
    return p;
}

static char card_name[128];

static int count_cuda(void *library, char *why, size_t size)
{
    int (*init)(unsigned), (*count)(int *), (*name)(char *, int, int), n = 0;
    *(void **)&init = symbol(library, "cuInit", why, size);
    *(void **)&count = symbol(library, "cuDeviceGetCount", why, size);
    *(void **)&name = symbol(library, "cuDeviceGetName", why, size);
    if (!init || !count || !name)
        return -1;
    int error = init(0);
    if (error == 0)
        error = count(&n);
    if (error == 0 && n > 0)
        error = name(card_name, sizeof card_name, 0);
    if (error)
        snprintf(why, size, "the driver answers error %d", error);
    return error ? -1 : n;
}

static int count_npu(void *library, char *why, size_t size)
{
    int (*init)(const char *), (*count)(uint32_t *);
    uint32_t n = 0;
    *(void **)&init = symbol(library, "aclInit", why, size);
    *(void **)&count = symbol(library, "aclrtGetDeviceCount", why, size);
    if (!init || !count)
        return -1;
    const int already = 100002; /* initialised before, by the program itself */
    int error = init(NULL);
    if (error == 0 || error == already)
        error = count(&n);
    if (error)
        snprintf(why, size, "the run time answers error %d", error);
    return error ? -1 : (int)n;
}

static int count_xpu(void *library, char *why, size_t size)
{
    int (*init)(uint32_t), (*drivers)(uint32_t *, void **), (*devices)(void *, uint32_t *, void **);
    *(void **)&init = symbol(library, "zeInit", why, size);
    *(void **)&drivers = symbol(library, "zeDriverGet", why, size);
    *(void **)&devices = symbol(library, "zeDeviceGet", why, size);
    if (!init || !drivers || !devices)
        return -1;
    void *handles[16];
    uint32_t driver_count = 16, total = 0;
    const uint32_t gpus_only = 1;
    int error = init(gpus_only);
    if (error == 0)
        error = drivers(&driver_count, handles);
    for (uint32_t i = 0; error == 0 && i < driver_count; i++) {
        uint32_t n = 0;
        error = devices(handles[i], &n, NULL);
        total += n;
    }
    if (error)
        snprintf(why, size, "the loader answers error %#x", (unsigned)error);
    return error ? -1 : (int)total;
}

static const struct {
    const char *device, *library;
    int (*count)(void *library, char *why, size_t size);
    const char *name; /* what it leaves there */
} drivers[] = {{"cuda", "libcuda.so.1", count_cuda, card_name},
               {"npu", "libascendcl.so", count_npu, ""},
               {"xpu", "libze_loader.so.1", count_xpu, ""}};
enum { DRIVERS = sizeof drivers / sizeof *drivers };

static tg_probe probes[DRIVERS + 1];
static char reasons[DRIVERS][128];
static pthread_once_t probed = PTHREAD_ONCE_INIT;

static void probe(void)
{
    for (int i = 0; i < DRIVERS; i++) {
        char *why = reasons[i];
        int n = -1;
        void *library = dlopen(drivers[i].library, RTLD_NOW | RTLD_LOCAL);
        if (library)
            n = drivers[i].count(library, why, sizeof reasons[i]);
        else
            snprintf(why, sizeof reasons[i], "cannot be loaded: no driver is installed");
        if (n >= 0)
            snprintf(why, sizeof reasons[i], "counts %d device%s", n, n == 1 ? "" : "s");
        probes[i] =
            (tg_probe){drivers[i].device, drivers[i].library, n > 0 ? n : 0, why, drivers[i].name};
    }
    probes[DRIVERS] = (tg_probe){"cpu", "", 1, "always there", ""};
}

int tg_device_probes(const tg_probe **list)
{
    pthread_once(&probed, probe);
    *list = probes;
    return DRIVERS + 1;
}

const char *tg_infer_device(void)
{
    pthread_once(&probed, probe);
    int i = 0;
    while (probes[i].count == 0)
        i++;
    return probes[i].device;
}
