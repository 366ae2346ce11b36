/* stand_in_model.c - a card that runs kernels: the model is behind the stand-in. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ascsim.h"
#include "stand_in.h"

/* clang-format off */
#define FUNCTIONS(X)       \
    X(ascsim_open)         \
    X(ascsim_map)          \
    X(ascsim_free)         \
    X(ascsim_written)      \
    X(ascsim_launch)       \
    X(ascsim_faults)       \
    X(ascsim_clear_faults) \
    X(ascsim_last_time)    \
    X(ascsim_error)        \
    X(ascsim_set_facts)
/* clang-format on */

static struct {
#define X(name) __typeof__(name) *name;
    FUNCTIONS(X)
#undef X
    ascsim *device;
    double us;
} model;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the model runs one launch at a time */

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "the stand-in for a card: %s: %s\n", what, why);
    exit(1);
}

static void *library(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("STAND_IN_MODEL"), name);
    void *found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!found)
        stop(path, dlerror());
    return found;
}

static void open_model(void)
{
    void *from = library("libascsim.so");
#define X(name) *(void **)&model.name = dlsym(from, #name);
    FUNCTIONS(X)
#undef X
    const char *soc = getenv("STAND_IN_SOC");
    if (model.ascsim_set_facts(getenv("STAND_IN_FACTS")))
        stop("STAND_IN_FACTS", model.ascsim_error());
    model.device = model.ascsim_open(&(ascsim_options){.soc = soc ? soc : "Ascend910B4"});
    if (!model.device)
        stop("the model", model.ascsim_error());
}

int model_is_card(void)
{
    if (!getenv("STAND_IN_MODEL"))
        return 0;
    pthread_once(&opened, open_model);
    return 1;
}

void model_map(void *memory, size_t bytes)
{
    pthread_mutex_lock(&lock);
    model.ascsim_map(model.device, memory, bytes, "memory of the card");
    pthread_mutex_unlock(&lock);
}

void model_unmap(void *memory)
{
    pthread_mutex_lock(&lock);
    model.ascsim_free(model.device, memory);
    pthread_mutex_unlock(&lock);
}

void model_written(void *memory, size_t bytes)
{
    pthread_mutex_lock(&lock);
    model.ascsim_written(model.device, memory, bytes);
    pthread_mutex_unlock(&lock);
}

void *model_open_kernels(const char *path)
{
    void *own = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return own ? own : library("libtigon_ascend_model.so");
}

void *model_kernel(void *kernels, const char *name)
{
    return dlsym(kernels, name);
}

double model_us(void)
{
    return model.us;
}

/* As msprof's op_summary: times of pipes are means of the cores. */
static void write_profile(const char *name, uint32_t blocks, const ascsim_time *t)
{
    const char *path = getenv("STAND_IN_PROFILE");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    if (ftell(f) == 0)
        fputs(
            "Device_id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Task Wait "
            "Time(us),Block Dim,Input Shapes,aiv_vec_time(us),aiv_mte2_time(us),aiv_mte3_time(us),"
            "aic_mac_time(us),aic_mte2_time(us),aic_fixpipe_time(us)\n",
            f);
    fprintf(f,
            "0,%s,%s,AI_VECTOR_CORE,\"%.3f\t\",%.3f,0,%u,\"1,2;3\",%.3f,%.3f,%.3f,%.3f,%.3f,%.3f\n",
            name, name, model.us - t->task_us, t->task_us, blocks, t->busy_us[ASCSIM_V],
            t->busy_us[ASCSIM_MTE2], t->busy_us[ASCSIM_MTE3], t->cube_busy_us[ASCSIM_M],
            t->cube_busy_us[ASCSIM_MTE2], t->cube_busy_us[ASCSIM_FIX]);
    fclose(f);
}

/* A fault breaks a rule, and the launch fails; questions to a card have some on purpose, and go on
 * as a card would. */
static int report_faults(const char *kernel)
{
    const ascsim_fault *faults;
    const int n = model.ascsim_faults(model.device, &faults), asks = !strcmp(kernel, "question");
    for (int i = 0; i < n; i++)
        record("%s %s: %s: %s (%s:%d)", asks ? "FAULT" : "VIOLATION FAULT", kernel, faults[i].kind,
               faults[i].text, faults[i].file ? faults[i].file : "", faults[i].line);
    violations += asks ? 0 : n;
    model.ascsim_clear_faults(model.device);
    return n > 0 && !asks;
}

int model_launch(const thing *function, uint32_t blocks, const thing *a)
{
    ascsim_arg args[MOST_ARGS];
    for (int i = 0; i < a->count; i++)
        args[i] = room_at(a->words[i]) ? ASCSIM_POINTER((uintptr_t)(a->words[i] - moved))
                                       : ASCSIM_U64(a->words[i]);
    ascsim_kernel kernel;
    *(void **)&kernel = (void *)(uintptr_t)function->words[0];
    pthread_mutex_lock(&lock);
    const int failed =
        model.ascsim_launch(model.device, function->name, kernel, blocks, args, a->count);
    if (failed)
        record("STOPPED %s: %s", function->name, model.ascsim_error());
    const int faulty = report_faults(function->name);
    ascsim_time time;
    if (!failed && model.ascsim_last_time(model.device, &time) == 0) {
        model.us += time.task_us;
        write_profile(function->name, blocks, &time);
    }
    pthread_mutex_unlock(&lock);
    return failed || faulty ? FAILED : 0;
}
