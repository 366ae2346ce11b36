/* runtime_acl.c - a card, through CANN's run time: loaded at run time, so that one build of Tigon
 * finds a card where there is one. Its state is of the process; what it calls the current device
 * is of each thread. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tigon/npu.h>

#include "acl.h"
#include "ascend.h"

enum { MOST_KERNELS = 256, BINARIES = ASCEND_MIX_CORES + 1 };

/* The kernels of each kind of core. */
static const struct {
    const char *file;
    uint32_t magic;
} binaries[BINARIES] = {
    [ASCEND_VECTOR_CORES] = {"tigon_ascend_kernels.o", ACL_MAGIC_VECTOR_CORE},
    [ASCEND_CUBE_CORES] = {"tigon_ascend_cube_kernels.o", ACL_MAGIC_CUBE_CORE},
    [ASCEND_MIX_CORES] = {"tigon_ascend_mix_kernels.o", ACL_MAGIC_BOTH_CORES},
};

static struct {
#define X(result, name, arguments) result(*name) arguments;
    ACL_FUNCTIONS(X)
#undef X
} acl;

static struct {
    int32_t device;
    int own_init, own_device; /* the program had not done it: undone at exit */
    void *binary[BINARIES];
    ascend_info info;
    struct {
        char name[96];
        void *function;
    } kernel[MOST_KERNELS];
    int kernels;
} card;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list of kernels */
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static tg_status open_status;
static char open_message[1024];
static _Thread_local int bound; /* this thread's current device is set */

/* "aclrtMalloc of 4096 bytes answers error 207001: <what the driver says>" */
static tg_status acl_fail(int error, const char *what)
{
    const char *says = acl.aclGetRecentErrMsg();
    return ascend_host->fail(TG_EDEVICE, "npu: %s answers error %d%s%s", what, error,
                             says && *says ? ": " : "", says && *says ? says : "");
}

#define ACL_TRY(call, what)                  \
    do {                                     \
        const int error_ = (call);           \
        if (error_ != ACL_SUCCESS)           \
            return acl_fail(error_, (what)); \
    } while (0)

/* ---- opening ---- */

static tg_status load_functions(void)
{
    static const struct {
        const char *name;
        void **at;
    } functions[] = {
#define X(result, name, arguments) {#name, (void **)&acl.name},
        ACL_FUNCTIONS(X)
#undef X
    };
    void *library = dlopen("libascendcl.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return ascend_host->fail(TG_ENOTFOUND, "npu: CANN's run time cannot be loaded: %s",
                                 dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!(*functions[i].at = dlsym(library, functions[i].name)))
            return ascend_host->fail(TG_EDEVICE,
                                     "npu: libascendcl.so has no %s: a newer CANN is needed",
                                     functions[i].name);
    return TG_OK;
}

static tg_status open_device(void)
{
    const int error = acl.aclInit(NULL);
    if (error != ACL_REPEAT_INITIALIZE)
        ACL_TRY(error, "aclInit");
    card.own_init = error == ACL_SUCCESS;
    uint32_t count = 0;
    ACL_TRY(acl.aclrtGetDeviceCount(&count), "aclrtGetDeviceCount");
    if (count == 0)
        return ascend_host->fail(TG_ENOTFOUND,
                                 "npu: the driver counts 0 devices, expected 1 or more");
    if (acl.aclrtGetDevice(&card.device) == ACL_SUCCESS)
        return TG_OK; /* the program has chosen one */
    card.device = 0;
    ACL_TRY(acl.aclrtSetDevice(card.device), "aclrtSetDevice");
    card.own_device = 1;
    return TG_OK;
}

/* Code for one architecture runs on no other, whatever the chip is called. A run time that is too
 * old to tell leaves the names of the table, whose chips are of this one. */
static tg_status check_architecture(const char *soc)
{
    int64_t architecture = 0;
    const char *why = tg_npu_chip_refused(soc);
    const int error = acl.aclrtGetDeviceInfo((uint32_t)card.device, ACL_NPU_ARCH, &architecture);
    if (error == ACL_SUCCESS && architecture == ASCEND_ARCHITECTURE)
        return TG_OK;
    if (error == ACL_SUCCESS)
        return ascend_host->fail(
            TG_EDEVICE, "npu: %s is of architecture %lld, and the kernels are compiled for %d", soc,
            (long long)architecture, ASCEND_ARCHITECTURE);
    if (why)
        return ascend_host->fail(TG_EDEVICE, "npu: %s %s, and the kernels are compiled for %d", soc,
                                 why, ASCEND_ARCHITECTURE);
    if (!tg_npu_chip_find(soc))
        return ascend_host->fail(
            TG_EDEVICE,
            "npu: the run time does not tell the architecture of %s (error %d), "
            "and the kernels are compiled for %d",
            soc, error, ASCEND_ARCHITECTURE);
    return TG_OK;
}

static tg_status ask_chip(ascend_info *info)
{
    const char *soc = acl.aclrtGetSocName();
    if (!soc || !*soc)
        return ascend_host->fail(TG_EDEVICE, "npu: aclrtGetSocName tells no name");
    ASCEND_TRY(check_architecture(soc));
    int64_t cores = 0, bits, own = 0;
    ACL_TRY(acl.aclrtGetDeviceInfo((uint32_t)card.device, ACL_VECTOR_CORE_NUM, &cores),
            "aclrtGetDeviceInfo of the number of vector cores");
    if (cores < 1 || cores > 65535)
        return ascend_host->fail(TG_EDEVICE,
                                 "npu: %s says it has %lld vector cores, expected 1 or more", soc,
                                 (long long)cores);
    ASCEND_TRY(tg_ub_capacity_bits(0, soc, &bits, NULL)); /* asks the chip itself */
    snprintf(info->soc, sizeof info->soc, "%s", soc);
    info->ub_bytes = tg_ub_usable_bytes(bits);
    if (acl.aclrtGetDeviceInfo((uint32_t)card.device, ACL_UBUF_PER_VECTOR_CORE, &own) ==
            ACL_SUCCESS &&
        own > 0 && own < bits / 8) /* more was said than the chip has */
        info->ub_bytes = tg_ub_usable_bytes(own * 8);
    info->cores = (int)cores;
    return TG_OK;
}

static tg_status load_kernels(int cores)
{
    char path[1024], what[1100];
    if (ascend_find_file(NULL, binaries[cores].file, path, sizeof path))
        return ascend_host->fail(
            TG_ENOTFOUND, "npu: %s is not there: build Tigon with -DTIGON_ASCEND_CANN=ON", path);
    acl_load_option magic = {.kind = ACL_LOAD_MAGIC, .value.magic = binaries[cores].magic};
    acl_load_options options = {&magic, 1};
    snprintf(what, sizeof what, "aclrtBinaryLoadFromFile of %s", path);
    ACL_TRY(acl.aclrtBinaryLoadFromFile(path, &options, &card.binary[cores]), what);
    return TG_OK;
}

static tg_status open_card(void)
{
    ascend_info info = {.cores = 0};
    ASCEND_TRY(load_functions());
    ASCEND_TRY(open_device());
    ASCEND_TRY(ask_chip(&info));
    for (int cores = 0; cores < BINARIES; cores++)
        ASCEND_TRY(load_kernels(cores));
    bound = 1;
    card.info = info; /* from here on it is open */
    return TG_OK;
}

static void open_once(void)
{
    open_status = open_card();
    snprintf(open_message, sizeof open_message, "%s", open_status ? tg_last_error() : "");
}

static tg_status card_open(void)
{
    pthread_once(&opened, open_once);
    return open_status == TG_OK ? TG_OK : ascend_host->fail(open_status, "%s", open_message);
}

static const ascend_info *card_info(void)
{
    return card.info.cores > 0 ? &card.info : NULL;
}

static void card_close(void)
{
    for (int cores = 0; cores < BINARIES; cores++)
        acl.aclrtBinaryUnLoad(card.binary[cores]);
    if (card.own_device)
        acl.aclrtResetDevice(card.device);
    if (card.own_init)
        acl.aclFinalize();
}

/* Every use of the card comes through here first. */
tg_status ascend_card_enter(void)
{
    ASCEND_TRY(card_open());
    if (!bound)
        ACL_TRY(acl.aclrtSetDevice(card.device), "aclrtSetDevice");
    bound = 1;
    return TG_OK;
}

/* ---- memory ---- */

void *ascend_card_alloc(size_t bytes)
{
    void *memory = NULL;
    char what[64];
    if (ascend_card_enter() != TG_OK)
        return NULL;
    const int error = acl.aclrtMalloc(&memory, bytes ? bytes : 1, ACL_MALLOC_HUGE_FIRST);
    if (error == ACL_SUCCESS)
        return memory;
    snprintf(what, sizeof what, "aclrtMalloc of %zu bytes", bytes);
    acl_fail(error, what);
    return NULL;
}

void ascend_card_free(void *memory)
{
    if (memory && ascend_card_enter() == TG_OK)
        acl.aclrtFree(memory);
}

tg_status ascend_card_sync(void *stream)
{
    ASCEND_TRY(ascend_card_enter());
    ACL_TRY(acl.aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
    return TG_OK;
}

/* Within the device a copy is put on the stream. One with the host's memory, which is not pinned,
 * is in the order of no stream: what was launched must have ended. */
tg_status ascend_card_copy(void *dst, int dst_device_type, const void *src, int src_device_type,
                           size_t bytes, void *stream)
{
    const int to = dst_device_type == TG_DEVICE_ASCEND, from = src_device_type == TG_DEVICE_ASCEND;
    const int kind = to ? (from ? ACL_DEVICE_TO_DEVICE : ACL_HOST_TO_DEVICE)
                        : (from ? ACL_DEVICE_TO_HOST : ACL_HOST_TO_HOST);
    char what[64];
    snprintf(what, sizeof what, "aclrtMemcpy of %zu bytes", bytes);
    if (kind == ACL_DEVICE_TO_DEVICE) {
        ASCEND_TRY(ascend_card_enter());
        ACL_TRY(acl.aclrtMemcpyAsync(dst, bytes, src, bytes, kind, stream), what);
        return TG_OK;
    }
    ASCEND_TRY(ascend_card_sync(stream));
    ACL_TRY(acl.aclrtMemcpy(dst, bytes, src, bytes, kind), what);
    return TG_OK;
}

/* ---- launching ---- */

static tg_status find_kernel(const ascend_call *l, void **function)
{
    const char *name = l->kernel;
    for (int i = 0; i < card.kernels; i++)
        if (strcmp(card.kernel[i].name, name) == 0) {
            *function = card.kernel[i].function;
            return TG_OK;
        }
    char what[160];
    snprintf(what, sizeof what, "aclrtBinaryGetFunction of %s", name);
    ACL_TRY(acl.aclrtBinaryGetFunction(card.binary[l->cores], name, function), what);
    if (card.kernels < MOST_KERNELS) {
        snprintf(card.kernel[card.kernels].name, sizeof card.kernel->name, "%s", name);
        card.kernel[card.kernels++].function = *function;
    }
    return TG_OK;
}

/* What cores of a mix kernel signal each other through. */
static tg_status append_sync_address(void *args)
{
    void *address, *parameter;
    ACL_TRY(acl.aclrtGetHardwareSyncAddr(&address), "aclrtGetHardwareSyncAddr");
    uint64_t word = (uint64_t)(uintptr_t)address;
    ACL_TRY(acl.aclrtKernelArgsAppend(args, &word, sizeof word, &parameter),
            "aclrtKernelArgsAppend");
    return TG_OK;
}

static tg_status launch(const ascend_call *l, void *function)
{
    void *args, *parameter;
    char what[160];
    ACL_TRY(acl.aclrtKernelArgsInit(function, &args), "aclrtKernelArgsInit");
    for (int i = 0; i < l->nargs; i++) {
        uint64_t word = l->args[i].word;
        ACL_TRY(acl.aclrtKernelArgsAppend(args, &word, sizeof word, &parameter),
                "aclrtKernelArgsAppend");
    }
    if (l->cores == ASCEND_MIX_CORES)
        ASCEND_TRY(append_sync_address(args));
    ACL_TRY(acl.aclrtKernelArgsFinalize(args), "aclrtKernelArgsFinalize");
    snprintf(what, sizeof what, "aclrtLaunchKernelWithConfig of %s, %lld blocks,", l->kernel,
             (long long)l->blocks);
    ACL_TRY(
        acl.aclrtLaunchKernelWithConfig(function, (uint32_t)l->blocks, l->stream, NULL, args, NULL),
        what);
    return TG_OK;
}

static tg_status launch_between(const ascend_call *l, void *function, void *begin, void *end)
{
    float ms = 0;
    ACL_TRY(acl.aclrtRecordEvent(begin, l->stream), "aclrtRecordEvent");
    ASCEND_TRY(launch(l, function));
    ACL_TRY(acl.aclrtRecordEvent(end, l->stream), "aclrtRecordEvent");
    ACL_TRY(acl.aclrtSynchronizeEvent(end), "aclrtSynchronizeEvent");
    ACL_TRY(acl.aclrtEventElapsedTime(&ms, begin, end), "aclrtEventElapsedTime");
    l->took->us = l->took->low_us = l->took->high_us = 1e3 * ms;
    return TG_OK;
}

static tg_status launch_timed(const ascend_call *l, void *function)
{
    void *begin, *end;
    ACL_TRY(acl.aclrtCreateEventExWithFlag(&begin, ACL_EVENT_WITH_TIME),
            "aclrtCreateEventExWithFlag");
    const int error = acl.aclrtCreateEventExWithFlag(&end, ACL_EVENT_WITH_TIME);
    tg_status status = error == ACL_SUCCESS ? launch_between(l, function, begin, end)
                                            : acl_fail(error, "aclrtCreateEventExWithFlag");
    if (error == ACL_SUCCESS)
        acl.aclrtDestroyEvent(end);
    acl.aclrtDestroyEvent(begin);
    return status;
}

static tg_status card_launch(const ascend_call *l)
{
    void *function;
    ASCEND_TRY(ascend_card_enter());
    if (l->blocks < 1 || l->blocks > 65535)
        return ascend_host->fail(TG_EDEVICE, "npu: %s asks for %lld blocks, expected 1 to 65535",
                                 l->kernel, (long long)l->blocks);
    pthread_mutex_lock(&lock);
    const tg_status found = find_kernel(l, &function);
    pthread_mutex_unlock(&lock);
    ASCEND_TRY(found);
    return l->took ? launch_timed(l, function) : launch(l, function);
}

const ascend_runtime ascend_card = {
    .label = "device",
    .open = card_open,
    .close = card_close,
    .info = card_info,
    .launch = card_launch,
};
