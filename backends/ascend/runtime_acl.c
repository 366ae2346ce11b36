/* runtime_acl.c - a card, through CANN's run time: loaded at run time, so that one build of Tigon
 * finds a card where there is one. Its state is of the process; what it calls the current device
 * is of each thread. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/npu.h>

#include "ascend.h"
#include "card.h"

enum { MOST_CARDS = 64 };

/* The kernels of each kind of core. */
static const struct {
    const char *file;
    uint32_t magic;
} binaries[CARD_BINARIES] = {
    [ASCEND_VECTOR_CORES] = {"tigon_ascend_kernels.o", ACL_MAGIC_VECTOR_CORE},
    [ASCEND_CUBE_CORES] = {"tigon_ascend_cube_kernels.o", ACL_MAGIC_CUBE_CORE},
    [ASCEND_MIX_CORES] = {"tigon_ascend_mix_kernels.o", ACL_MAGIC_BOTH_CORES},
};

struct ascend_acl ascend_acl;

static struct {
    int32_t first;            /* in use first; all are of its kind */
    int own_init, own_device; /* the program had not done it: undone at exit */
    ascend_info info;
    ascend_code *code[MOST_CARDS]; /* NULL: not in use yet */
} cards;

pthread_mutex_t ascend_code_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static tg_status open_status;
static char open_message[1024];

tg_status ascend_acl_fail(int error, const char *what)
{
    const char *says = ascend_acl.aclGetRecentErrMsg();
    return ascend_host->fail(TG_EDEVICE, "npu: %s answers error %d%s%s", what, error,
                             says && *says ? ": " : "", says && *says ? says : "");
}

/* ---- opening ---- */

static tg_status load_functions(void)
{
    static const struct {
        const char *name;
        void **at;
    } functions[] = {
#define X(result, name, arguments) {#name, (void **)&ascend_acl.name},
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
    const int error = ascend_acl.aclInit(NULL);
    if (error != ACL_REPEAT_INITIALIZE)
        ACL_TRY(error, "aclInit");
    cards.own_init = error == ACL_SUCCESS;
    uint32_t count = 0;
    ACL_TRY(ascend_acl.aclrtGetDeviceCount(&count), "aclrtGetDeviceCount");
    if (count == 0)
        return ascend_host->fail(TG_ENOTFOUND,
                                 "npu: the driver counts 0 devices, expected 1 or more");
    if (ascend_acl.aclrtGetDevice(&cards.first) == ACL_SUCCESS)
        return TG_OK; /* the program has chosen one */
    cards.first = 0;
    ACL_TRY(ascend_acl.aclrtSetDevice(cards.first), "aclrtSetDevice");
    cards.own_device = 1;
    return TG_OK;
}

/* Code for one architecture runs on no other, whatever the chip is called. A run time that is too
 * old to tell leaves the names of the table, whose chips are of this one. */
static tg_status check_architecture(const char *soc)
{
    int64_t architecture = 0;
    const char *why = tg_npu_chip_refused(soc);
    const int error =
        ascend_acl.aclrtGetDeviceInfo((uint32_t)cards.first, ACL_NPU_ARCH, &architecture);
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
    const char *soc = ascend_acl.aclrtGetSocName();
    if (!soc || !*soc)
        return ascend_host->fail(TG_EDEVICE, "npu: aclrtGetSocName tells no name");
    ASCEND_TRY(check_architecture(soc));
    int64_t cores = 0, bits, own = 0;
    ACL_TRY(ascend_acl.aclrtGetDeviceInfo((uint32_t)cards.first, ACL_VECTOR_CORE_NUM, &cores),
            "aclrtGetDeviceInfo of the number of vector cores");
    if (cores < 1 || cores > 65535)
        return ascend_host->fail(TG_EDEVICE,
                                 "npu: %s says it has %lld vector cores, expected 1 or more", soc,
                                 (long long)cores);
    ASCEND_TRY(tg_ub_capacity_bits(0, soc, &bits, NULL)); /* asks the chip itself */
    snprintf(info->soc, sizeof info->soc, "%s", soc);
    info->ub_bytes = tg_ub_usable_bytes(bits);
    if (ascend_acl.aclrtGetDeviceInfo((uint32_t)cards.first, ACL_UBUF_PER_VECTOR_CORE, &own) ==
            ACL_SUCCESS &&
        own > 0 && own < bits / 8) /* more was said than the chip has */
        info->ub_bytes = tg_ub_usable_bytes(own * 8);
    info->cores = (int)cores;
    return TG_OK;
}

static tg_status load_kernels(int cores, void **binary)
{
    char path[1024], what[1100];
    if (ascend_find_file(NULL, binaries[cores].file, path, sizeof path))
        return ascend_host->fail(
            TG_ENOTFOUND, "npu: %s is not there: build Tigon with -DTIGON_ASCEND_CANN=ON", path);
    acl_load_option magic = {.kind = ACL_LOAD_MAGIC, .value.magic = binaries[cores].magic};
    acl_load_options options = {&magic, 1};
    snprintf(what, sizeof what, "aclrtBinaryLoadFromFile of %s", path);
    ACL_TRY(ascend_acl.aclrtBinaryLoadFromFile(path, &options, binary), what);
    return TG_OK;
}

/* For the card that is the calling thread's. */
static tg_status load_code(int32_t card)
{
    ascend_code *const loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return ascend_host->fail(TG_ENOMEM, "npu: no memory for the list of kernels");
    for (int cores = 0; cores < CARD_BINARIES; cores++) {
        const tg_status status = load_kernels(cores, &loaded->binary[cores]);
        if (status == TG_OK)
            continue;
        while (cores-- > 0)
            ascend_acl.aclrtBinaryUnLoad(loaded->binary[cores]);
        free(loaded);
        return status;
    }
    cards.code[card] = loaded;
    return TG_OK;
}

static tg_status open_card(void)
{
    ascend_info info = {.cores = 0};
    ASCEND_TRY(load_functions());
    ASCEND_TRY(open_device());
    ASCEND_TRY(ask_chip(&info));
    cards.info = info; /* from here on it is open */
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
    return cards.info.cores > 0 ? &cards.info : NULL;
}

/* ---- which card ---- */

tg_status ascend_card_take(int32_t *card)
{
    ASCEND_TRY(card_open());
    if (ascend_acl.aclrtGetDevice(card) != ACL_SUCCESS) {
        *card = cards.first;
        ACL_TRY(ascend_acl.aclrtSetDevice(*card), "aclrtSetDevice");
    }
    if (*card < 0 || *card >= MOST_CARDS)
        return ascend_host->fail(TG_EUNSUPPORTED,
                                 "npu: the current device is %d, expected below %d", (int)*card,
                                 MOST_CARDS);
    pthread_mutex_lock(&ascend_code_lock);
    const tg_status status = cards.code[*card] ? TG_OK : load_code(*card);
    pthread_mutex_unlock(&ascend_code_lock);
    return status;
}

tg_status ascend_card_enter(int32_t card, int32_t *before)
{
    const int had_one = ascend_acl.aclrtGetDevice(before) == ACL_SUCCESS;
    if (!had_one || *before != card)
        ACL_TRY(ascend_acl.aclrtSetDevice(card), "aclrtSetDevice");
    if (!had_one)
        *before = card;
    return TG_OK;
}

void ascend_card_leave(int32_t card, int32_t before)
{
    if (before != card)
        ascend_acl.aclrtSetDevice(before);
}

static void unload_code(int32_t card)
{
    int32_t before;
    if (ascend_card_enter(card, &before) == TG_OK) {
        for (int cores = 0; cores < CARD_BINARIES; cores++)
            ascend_acl.aclrtBinaryUnLoad(cards.code[card]->binary[cores]);
        ascend_card_leave(card, before);
    }
    free(cards.code[card]);
    cards.code[card] = NULL;
}

static void card_close(void)
{
    for (int32_t card = 0; card < MOST_CARDS; card++)
        if (cards.code[card])
            unload_code(card);
    if (cards.own_device)
        ascend_acl.aclrtResetDevice(cards.first);
    if (cards.own_init)
        ascend_acl.aclFinalize();
}

ascend_code *ascend_code_of(int32_t card)
{
    return cards.code[card];
}

const ascend_runtime ascend_card = {
    .label = "device",
    .open = card_open,
    .close = card_close,
    .info = card_info,
    .launch = ascend_card_launch,
};
