/* runtime_model.c - the model of a vector core as a device. Both the model and the kernels compiled
 * for it are libraries of their own, loaded when a context first chooses npu-model. Tensors stay in
 * host memory; a launch lends them to the model. */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/npu.h>

#include "model.h"

enum { MOST_ARGS = 96, SYNC_ADDRESS = 4096 };

struct model_functions ascend_ascsim;

static struct {
    void *kernels;           /* of dlopen */
    ascsim *timed, *untimed; /* the cost model takes time itself: it is on where it is asked for */
    ascsim_options options;
    ascend_info info;
    const char *profile; /* folder for tables and traces; NULL: none is wanted */
} model;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the model runs one launch at a time */
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static tg_status open_status;
static char open_message[1024];

/* ---- opening ---- */

static void *load_library(const char *file)
{
    char path[1024];
    if (ascend_find_file("TIGON_ASCEND_MODEL", file, path, sizeof path)) {
        ascend_host->fail(
            TG_ENOTFOUND,
            "npu-model: %s is not there; build Tigon with -DTIGON_ASCEND_MODEL=ON, or "
            "set TIGON_ASCEND_MODEL to its folder",
            path);
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        ascend_host->fail(TG_EDEVICE, "npu-model: %s cannot be loaded: %s", path, dlerror());
    return library;
}

static tg_status load_model(void)
{
    static const struct {
        const char *name;
        void **at;
    } functions[] = {
#define X(name) {"ascsim_" #name, (void **)&ascend_ascsim.name},
        MODEL_FUNCTIONS(X)
#undef X
    };
    void *library = load_library("libascsim.so");
    if (!library)
        return TG_ENOTFOUND;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!(*functions[i].at = dlsym(library, functions[i].name)))
            return ascend_host->fail(TG_EDEVICE, "npu-model: libascsim.so has no %s",
                                     functions[i].name);
    model.kernels = load_library("libtigon_ascend_model.so");
    return model.kernels ? TG_OK : TG_ENOTFOUND;
}

static tg_status unknown_chip(const char *soc)
{
    char known[256] = "";
    const char *name;
    for (int i = 0; (name = ascend_ascsim.chip_name(i)); i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", name);
    }
    const char *why = tg_npu_chip_refused(soc);
    return ascend_host->fail(TG_ENOTFOUND,
                             "TIGON_SOC: the model has no chip %s%s%s, expected one of %s", soc,
                             why ? ", which " : "", why ? why : "", known);
}

static ascsim *device(int timed)
{
    ascsim **at = timed ? &model.timed : &model.untimed;
    if (*at)
        return *at;
    ascsim_options options = model.options;
    options.timing = timed ? ASCSIM_TIME_ON : ASCSIM_TIME_NONE;
    *at = ascend_ascsim.open(&options);
    if (!*at)
        ascend_host->fail(TG_EDEVICE, "npu-model: %s", ascend_ascsim.error());
    return *at;
}

/* TIGON_ASCEND_SEED: 0 or not set, instructions run as soon as they may; else
 * another legal order. */
static tg_status read_seed(uint64_t *seed)
{
    const char *text = getenv("TIGON_ASCEND_SEED");
    char *end;
    *seed = 0;
    if (!text || !*text)
        return TG_OK;
    *seed = strtoull(text, &end, 10);
    if (*end || *text == '-')
        return ascend_host->fail(
            TG_EINVAL, "TIGON_ASCEND_SEED is \"%s\", expected an integer of 0 or more", text);
    return TG_OK;
}

static tg_status open_model(void)
{
    uint64_t seed;
    ASCEND_TRY(load_model());
    ASCEND_TRY(read_seed(&seed));
    if (ascend_ascsim.set_facts(getenv("TIGON_ASCEND_FACTS")))
        return ascend_host->fail(TG_EINVAL, "TIGON_ASCEND_FACTS: %s", ascend_ascsim.error());
    const char *soc = getenv("TIGON_SOC");
    if (!soc || !*soc)
        soc = "910B4";
    const double cores = ascend_ascsim.chip_fact(soc, "vector_cores");
    if (cores < 1)
        return unknown_chip(soc);
    int64_t bits;
    ASCEND_TRY(tg_ub_capacity_bits(0, soc, &bits, NULL));
    snprintf(model.info.soc, sizeof model.info.soc, "%s", soc);
    model.info.cores = (int)cores;
    model.info.ub_bytes = tg_ub_usable_bytes(bits);
    const int64_t own = (int64_t)ascend_ascsim.chip_fact(soc, "ub_usable_bytes");
    if (model.info.ub_bytes > own) /* more was said than the chip has */
        model.info.ub_bytes = own;
    model.profile = getenv("TIGON_ASCEND_PROFILE");
    if (model.profile && !*model.profile)
        model.profile = NULL;
    model.options = (ascsim_options){.soc = model.info.soc,
                                     .seed = seed,
                                     .trace = model.profile != NULL,
                                     .ub_bytes = model.info.ub_bytes};
    return device(0) ? TG_OK : TG_EDEVICE; /* now, since the model may refuse its options */
}

static void open_once(void)
{
    open_status = open_model();
    snprintf(open_message, sizeof open_message, "%s", open_status ? tg_last_error() : "");
}

static tg_status model_open(void)
{
    pthread_once(&opened, open_once);
    return open_status == TG_OK ? TG_OK : ascend_host->fail(open_status, "%s", open_message);
}

static const ascend_info *model_info(void)
{
    return model.info.cores > 0 && open_status == TG_OK ? &model.info : NULL;
}

static void write_profile(void)
{
    const char *wanted = getenv("TIGON_ASCEND_TRACE");
    const int trace = wanted && *wanted && strcmp(wanted, "0");
    const int failed = ascend_ascsim.write_profile(model.timed, model.profile);
    const int64_t left_out =
        !failed && trace ? ascend_ascsim.write_trace(model.timed, model.profile) : 0;
    if (failed || left_out < 0)
        ascend_host->log(NULL, "tigon: TIGON_ASCEND_PROFILE: %s", ascend_ascsim.error());
    else if (left_out)
        ascend_host->log(NULL,
                         "tigon: trace.json holds the first instructions; %" PRId64 " are left out",
                         left_out);
}

static void model_close(void)
{
    if (model.timed && model.profile)
        write_profile();
    if (model.timed)
        ascend_ascsim.close(model.timed);
    if (model.untimed)
        ascend_ascsim.close(model.untimed);
}

/* ---- what a launch lends: the ranges of its arguments, those that overlap as one ---- */

typedef struct range {
    char *low, *high;
    char name[64];
} range;

static int by_low(const void *a, const void *b)
{
    const range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

static int ranges_of(const ascend_call *l, range *list)
{
    int n = 0, kept = 0;
    for (int i = 0; i < l->nargs; i++)
        if (l->args[i].bytes > 0) {
            char *low = (char *)(uintptr_t)l->args[i].word;
            list[n] = (range){.low = low, .high = low + l->args[i].bytes};
            snprintf(list[n++].name, sizeof list->name, "%s", l->args[i].name);
        }
    qsort(list, (size_t)n, sizeof *list, by_low);
    for (int i = 1; i < n; i++) {
        range *last = &list[kept];
        if (list[i].low >= last->high) {
            list[++kept] = list[i];
            continue;
        }
        if (list[i].high > last->high)
            last->high = list[i].high;
        const size_t used = strlen(last->name);
        snprintf(last->name + used, sizeof last->name - used, "|%s", list[i].name);
    }
    return n ? kept + 1 : 0;
}

static tg_status map_ranges(ascsim *sim, range *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (ascend_ascsim.map(sim, list[i].low, (size_t)(list[i].high - list[i].low),
                              list[i].name) == 0)
            continue;
        while (--i >= 0)
            ascend_ascsim.free(sim, list[i].low);
        return ascend_host->fail(TG_EDEVICE, "npu-model: %s", ascend_ascsim.error());
    }
    return TG_OK;
}

/* ---- launching ---- */

static tg_status run(ascsim *sim, const ascend_call *l, ascsim_kernel kernel)
{
    ascsim_arg args[MOST_ARGS + 1];
    range ranges[MOST_ARGS];
    for (int i = 0; i < l->nargs; i++)
        args[i] = l->args[i].bytes ? ASCSIM_POINTER((uintptr_t)l->args[i].word)
                                   : ASCSIM_U64(l->args[i].word);
    int nargs = l->nargs;
    if (l->cores == ASCEND_MIX_CORES)
        args[nargs++] = ASCSIM_U64(SYNC_ADDRESS); /* the model takes any */
    const int n = ranges_of(l, ranges);
    ASCEND_TRY(map_ranges(sim, ranges, n));
    const int stopped = ascend_ascsim.launch(sim, l->kernel, kernel, l->blocks, args, nargs);
    for (int i = 0; i < n; i++)
        ascend_ascsim.free(sim, ranges[i].low);
    ASCEND_TRY(ascend_model_faults(sim, l, stopped));
    ascsim_time time;
    if (l->took && ascend_ascsim.last_time(sim, &time) == 0)
        ascend_model_time(&time, model.info.soc, l->took);
    return l->did ? ascend_model_record(sim, l->did) : TG_OK;
}

static tg_status model_launch(const ascend_call *l)
{
    ascsim_kernel kernel;
    *(void **)&kernel = dlsym(model.kernels, l->kernel);
    if (!kernel)
        return ascend_host->fail(TG_EDEVICE, "npu-model: libtigon_ascend_model.so has no kernel %s",
                                 l->kernel);
    if (l->nargs > MOST_ARGS)
        return ascend_host->fail(TG_EDEVICE, "npu-model: %s has %d arguments, expected at most %d",
                                 l->kernel, l->nargs, MOST_ARGS);
    pthread_mutex_lock(&lock);
    ascsim *sim = device(l->took || model.profile);
    const tg_status status = sim ? run(sim, l, kernel) : TG_EDEVICE;
    pthread_mutex_unlock(&lock);
    return status;
}

const ascend_runtime ascend_model = {
    .label = "model",
    .open = model_open,
    .close = model_close,
    .info = model_info,
    .launch = model_launch,
};
