/* launch_acl.c - launches on a card, through CANN's run time. */
#include <stdio.h>
#include <string.h>

#include "ascend.h"
#include "card.h"

static tg_status find_kernel(const ascend_call *l, void **function)
{
    ascend_code *const c = ascend_code_of(l->card);
    const char *name = l->kernel;
    for (int i = 0; i < c->kernels; i++)
        if (strcmp(c->kernel[i].name, name) == 0) {
            *function = c->kernel[i].function;
            return TG_OK;
        }
    char what[160];
    snprintf(what, sizeof what, "aclrtBinaryGetFunction of %s", name);
    ACL_TRY(ascend_acl.aclrtBinaryGetFunction(c->binary[l->cores], name, function), what);
    if (c->kernels < CARD_KERNELS) {
        snprintf(c->kernel[c->kernels].name, sizeof c->kernel->name, "%s", name);
        c->kernel[c->kernels++].function = *function;
    }
    return TG_OK;
}

/* What cores of a mix kernel signal each other through. */
static tg_status append_sync_address(void *args)
{
    void *address, *parameter;
    ACL_TRY(ascend_acl.aclrtGetHardwareSyncAddr(&address), "aclrtGetHardwareSyncAddr");
    uint64_t word = (uint64_t)(uintptr_t)address;
    ACL_TRY(ascend_acl.aclrtKernelArgsAppend(args, &word, sizeof word, &parameter),
            "aclrtKernelArgsAppend");
    return TG_OK;
}

static tg_status launch(const ascend_call *l, void *function)
{
    void *args, *parameter;
    char what[160];
    ACL_TRY(ascend_acl.aclrtKernelArgsInit(function, &args), "aclrtKernelArgsInit");
    for (int i = 0; i < l->nargs; i++) {
        uint64_t word = l->args[i].word;
        ACL_TRY(ascend_acl.aclrtKernelArgsAppend(args, &word, sizeof word, &parameter),
                "aclrtKernelArgsAppend");
    }
    if (l->cores == ASCEND_MIX_CORES)
        ASCEND_TRY(append_sync_address(args));
    ACL_TRY(ascend_acl.aclrtKernelArgsFinalize(args), "aclrtKernelArgsFinalize");
    snprintf(what, sizeof what, "aclrtLaunchKernelWithConfig of %s, %lld blocks,", l->kernel,
             (long long)l->blocks);
    ACL_TRY(ascend_acl.aclrtLaunchKernelWithConfig(function, (uint32_t)l->blocks, l->stream, NULL,
                                                   args, NULL),
            what);
    return TG_OK;
}

static tg_status launch_between(const ascend_call *l, void *function, void *begin, void *end)
{
    float ms = 0;
    ACL_TRY(ascend_acl.aclrtRecordEvent(begin, l->stream), "aclrtRecordEvent");
    ASCEND_TRY(launch(l, function));
    ACL_TRY(ascend_acl.aclrtRecordEvent(end, l->stream), "aclrtRecordEvent");
    ACL_TRY(ascend_acl.aclrtSynchronizeEvent(end), "aclrtSynchronizeEvent");
    ACL_TRY(ascend_acl.aclrtEventElapsedTime(&ms, begin, end), "aclrtEventElapsedTime");
    l->took->us = l->took->low_us = l->took->high_us = 1e3 * ms;
    return TG_OK;
}

static tg_status launch_timed(const ascend_call *l, void *function)
{
    void *begin, *end;
    ACL_TRY(ascend_acl.aclrtCreateEventExWithFlag(&begin, ACL_EVENT_WITH_TIME),
            "aclrtCreateEventExWithFlag");
    const int error = ascend_acl.aclrtCreateEventExWithFlag(&end, ACL_EVENT_WITH_TIME);
    tg_status status = error == ACL_SUCCESS ? launch_between(l, function, begin, end)
                                            : ascend_acl_fail(error, "aclrtCreateEventExWithFlag");
    if (error == ACL_SUCCESS)
        ascend_acl.aclrtDestroyEvent(end);
    ascend_acl.aclrtDestroyEvent(begin);
    return status;
}

static tg_status find_and_launch(const ascend_call *l)
{
    void *function;
    pthread_mutex_lock(&ascend_code_lock);
    const tg_status found = find_kernel(l, &function);
    pthread_mutex_unlock(&ascend_code_lock);
    ASCEND_TRY(found);
    return l->took ? launch_timed(l, function) : launch(l, function);
}

tg_status ascend_card_launch(const ascend_call *l)
{
    int32_t before;
    if (l->blocks < 1 || l->blocks > 65535)
        return ascend_host->fail(TG_EDEVICE, "npu: %s asks for %lld blocks, expected 1 to 65535",
                                 l->kernel, (long long)l->blocks);
    ASCEND_TRY(ascend_card_enter(l->card, &before));
    const tg_status status = find_and_launch(l);
    ascend_card_leave(l->card, before);
    return status;
}
