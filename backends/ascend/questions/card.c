/* card.c - a card with one kernel, by CANN's run time, loaded when this process starts. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../acl.h"
#include "questions.h"

static struct {
#define X(result, name, arguments) result(*name) arguments;
    ACL_FUNCTIONS(X)
#undef X
} acl;

static struct {
    void *binary, *function, *in, *out, *events[2];
    int is_mix;
} card;

#define TRY(name, ...)                                                         \
    do {                                                                       \
        const int error = acl.name(__VA_ARGS__);                               \
        if (error && !(error == ACL_REPEAT_INITIALIZE))                        \
            card_fail("%s answers error %d: %s", #name, error, acl_message()); \
    } while (0)

static const char *acl_message(void)
{
    const char *text = acl.aclGetRecentErrMsg();
    return text ? text : "";
}

static void load_functions(void)
{
    void *library = dlopen("libascendcl.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        card_fail("CANN's run time cannot be loaded: %s", dlerror());
#define X(result, name, arguments)               \
    *(void **)&acl.name = dlsym(library, #name); \
    if (!acl.name)                               \
        card_fail("libascendcl.so has no " #name);
    ACL_FUNCTIONS(X)
#undef X
}

static uint32_t magic_of(const char *cores)
{
    return !strcmp(cores, ".cube")  ? ACL_MAGIC_CUBE_CORE
           : !strcmp(cores, ".mix") ? ACL_MAGIC_BOTH_CORES
                                    : ACL_MAGIC_VECTOR_CORE;
}

void card_open(const question *q, const char *folder)
{
    char path[4096];
    load_functions();
    TRY(aclInit, NULL);
    TRY(aclrtSetDevice, 0);
    snprintf(path, sizeof path, "%s/%s%s.o", folder, q->kernel, q->cores);
    if (access(path, R_OK))
        card_fail("the kernel was not built");
    acl_load_option magic = {.kind = ACL_LOAD_MAGIC, .value.magic = magic_of(q->cores)};
    acl_load_options options = {&magic, 1};
    card.is_mix = !strcmp(q->cores, ".mix");
    TRY(aclrtBinaryLoadFromFile, path, &options, &card.binary);
    TRY(aclrtBinaryGetFunction, card.binary, "question", &card.function);
    TRY(aclrtMalloc, &card.in, QUESTION_BYTES, ACL_MALLOC_HUGE_FIRST);
    TRY(aclrtMalloc, &card.out, QUESTION_BYTES, ACL_MALLOC_HUGE_FIRST);
    for (int i = 0; i < 2; i++)
        TRY(aclrtCreateEventExWithFlag, &card.events[i], ACL_EVENT_WITH_TIME);
    float *nothing = malloc(QUESTION_BYTES);
    for (int i = 0; nothing && i < QUESTION_FLOATS; i++)
        nothing[i] = -1;
    TRY(aclrtMemcpy, card.out, QUESTION_BYTES, nothing, QUESTION_BYTES, ACL_HOST_TO_DEVICE);
    free(nothing);
}

void card_put(const float *in)
{
    TRY(aclrtMemcpy, card.in, QUESTION_BYTES, in, QUESTION_BYTES, ACL_HOST_TO_DEVICE);
}

void card_get(float *out)
{
    TRY(aclrtMemcpy, out, QUESTION_BYTES, card.out, QUESTION_BYTES, ACL_DEVICE_TO_HOST);
}

double card_run(int64_t n)
{
    void *args, *parameter, *sync = NULL;
    float ms = 0;
    if (card.is_mix)
        TRY(aclrtGetHardwareSyncAddr, &sync);
    int64_t words[] = {(int64_t)(intptr_t)card.in, (int64_t)(intptr_t)card.out, n,
                       (int64_t)(intptr_t)sync};
    TRY(aclrtKernelArgsInit, card.function, &args);
    for (int i = 0; i < 3 + card.is_mix; i++)
        TRY(aclrtKernelArgsAppend, args, &words[i], sizeof *words, &parameter);
    TRY(aclrtKernelArgsFinalize, args);
    TRY(aclrtRecordEvent, card.events[0], NULL);
    TRY(aclrtLaunchKernelWithConfig, card.function, 1, NULL, NULL, args, NULL);
    TRY(aclrtRecordEvent, card.events[1], NULL);
    TRY(aclrtSynchronizeStream, NULL);
    TRY(aclrtSynchronizeEvent, card.events[1]);
    TRY(aclrtEventElapsedTime, &ms, card.events[0], card.events[1]);
    return 1e3 * ms;
}

void card_close(void)
{
    for (int i = 0; i < 2; i++)
        acl.aclrtDestroyEvent(card.events[i]);
    acl.aclrtFree(card.in);
    acl.aclrtFree(card.out);
    acl.aclrtBinaryUnLoad(card.binary);
    acl.aclrtResetDevice(0);
    acl.aclFinalize();
}

/* ---- the clock, of the model's table of chips ---- */

static const char *const chips[] = {
#define CHIP(name) #name,
#include "ascsim_chips.inc"
#undef CHIP
};

static const struct {
    const char *name, *values; /* "1850, 1800, ...", one a chip */
} facts[] = {
#define FACT(name, unit, ...) {#name, #__VA_ARGS__},
#include "ascsim_chips.inc"
#undef FACT
};

/* The number of a list at a place; 0: there is none. */
static double number_at(const char *list, size_t place)
{
    for (; place > 0 && list; place--)
        list = (list = strchr(list, ',')) ? list + 1 : NULL;
    return list ? strtod(list, NULL) : 0;
}

/* Of a chip that the table does not name, the first one's. */
double card_clock_mhz(void)
{
    const char *soc = acl.aclrtGetSocName();
    size_t fact = 0;
    double mhz = 0;
    while (strcmp(facts[fact].name, "clock_mhz") != 0)
        fact++;
    for (size_t i = 0; i < sizeof chips / sizeof *chips && mhz == 0; i++)
        if (soc && strstr(soc, chips[i]))
            mhz = number_at(facts[fact].values, i);
    return mhz > 0 ? mhz : number_at(facts[fact].values, 0);
}
