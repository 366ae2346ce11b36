/* src/core/blas.c - finds a BLAS and holds it to the thread that calls it, since its callers cut
 * the work themselves. */
#include "core/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/services.h"

static struct {
    pthread_once_t once;
    tg_blas found;
    char asked[256]; /* TIGON_BLAS then */
    char why[256];   /* what was tried last is none */
} blas = {.once = PTHREAD_ONCE_INIT};

enum { THERE = RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD };

/* MKL has a number of threads for the calling thread, others one for the process. */
static void hold_threads(void *library)
{
    void (*of_openblas)(int), (*of_blis)(int64_t);
    *(void **)&blas.found.hold_threads = dlsym(library, "MKL_Set_Num_Threads_Local");
    *(void **)&of_openblas = dlsym(library, "openblas_set_num_threads");
    *(void **)&of_blis = dlsym(library, "bli_thread_set_num_threads");
    if (!blas.found.hold_threads && of_openblas)
        of_openblas(1);
    if (!blas.found.hold_threads && of_blis)
        of_blis(1);
}

/* MKL loaded by nobody else would bring threads of its own. */
static void leave_threads_out(void *library)
{
    const int sequential = 1;
    int (*choose)(int);
    *(void **)&choose = dlsym(library, "MKL_Set_Threading_Layer");
    if (choose)
        choose(sequential);
}

/* An OpenBLAS without threads of its own keeps its buffers without locks. */
static int only_one_thread(void *library)
{
    int (*parallel)(void);
    *(void **)&parallel = dlsym(library, "openblas_get_parallel");
    return parallel && parallel() == 0;
}

static int use(void *library)
{
    tg_sgemm_fn *sgemm;
    *(void **)&sgemm = dlsym(library, "sgemm_");
    if (!sgemm || only_one_thread(library)) {
        const char *why = sgemm ? "it must not be called by several threads" : "it has no sgemm_";
        snprintf(blas.why, sizeof blas.why, "%s", why);
        return 0;
    }
    blas.found.sgemm = sgemm;
    hold_threads(library);
    return 1;
}

/* A file, or the name of a library. It stays loaded. */
static int load(const char *name)
{
    void *library = dlopen(name, THERE);
    if (library)
        return use(library);
    library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        snprintf(blas.why, sizeof blas.why, "%s", dlerror());
        return 0;
    }
    leave_threads_out(library);
    return use(library);
}

static void find_mkl(void)
{
    static const char *const programs[] = {"libmkl_rt.so.3", "libmkl_rt.so.2", "libtorch_cpu.so"};
    static const char *const systems[] = {"libmkl_rt.so.3", "libmkl_rt.so.2"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        void *library = dlopen(programs[i], THERE);
        if (library && dlsym(library, "MKL_Set_Num_Threads_Local") && use(library))
            return;
    }
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++)
        if (load(systems[i]))
            return;
}

static int is_intel(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("intel") != 0;
#else
    return 0;
#endif
}

static void find(void)
{
    const char *name = getenv("TIGON_BLAS");
    if (name && *name) {
        snprintf(blas.asked, sizeof blas.asked, "%s", name);
        if (strcmp(name, "none") != 0)
            load(name);
        return;
    }
    if (is_intel())
        find_mkl();
}

const tg_blas *tg_blas_find(void)
{
    pthread_once(&blas.once, find);
    return &blas.found;
}

tg_status tg_blas_check(tg_ctx *ctx, const char *value, const char *who)
{
    (void)ctx;
    tg_blas_find();
    if (strncmp(value, blas.asked, sizeof blas.asked - 1) != 0)
        return tg_fail(TG_EINVAL, "%s: %s comes too late, the process has decided for %s", who,
                       value, *blas.asked ? blas.asked : "its own choice");
    if (*blas.why)
        return tg_fail(TG_ENOTFOUND, "%s: %s is no BLAS: %s", who, value, blas.why);
    return TG_OK;
}
