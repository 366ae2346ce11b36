/* card_memory.c - a card's memory: alloc, free, copies, the wait for what a stream was given. */
#include <stdio.h>

#include "ascend.h"
#include "card.h"

void *ascend_card_alloc(int32_t card, size_t bytes)
{
    void *memory = NULL;
    char what[64];
    int32_t before;
    if (ascend_card_enter(card, &before) != TG_OK)
        return NULL;
    const int error = ascend_acl.aclrtMalloc(&memory, bytes ? bytes : 1, ACL_MALLOC_HUGE_FIRST);
    ascend_card_leave(card, before);
    if (error == ACL_SUCCESS)
        return memory;
    snprintf(what, sizeof what, "aclrtMalloc of %zu bytes", bytes);
    ascend_acl_fail(error, what);
    return NULL;
}

void ascend_card_free(int32_t card, void *memory)
{
    int32_t before;
    if (!memory || ascend_card_enter(card, &before) != TG_OK)
        return;
    ascend_acl.aclrtFree(memory);
    ascend_card_leave(card, before);
}

static tg_status wait_for(void *stream)
{
    ACL_TRY(ascend_acl.aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
    return TG_OK;
}

tg_status ascend_card_sync(int32_t card, void *stream)
{
    int32_t before;
    ASCEND_TRY(ascend_card_enter(card, &before));
    const tg_status status = wait_for(stream);
    ascend_card_leave(card, before);
    return status;
}

/* Within the device a copy is put on the stream. One with the host's memory, which is not pinned,
 * is in the order of no stream: what was launched must have ended. */
static tg_status copy(void *dst, int dst_device_type, const void *src, int src_device_type,
                      size_t bytes, void *stream)
{
    const int to = dst_device_type == TG_DEVICE_ASCEND, from = src_device_type == TG_DEVICE_ASCEND;
    const int kind = to ? (from ? ACL_DEVICE_TO_DEVICE : ACL_HOST_TO_DEVICE)
                        : (from ? ACL_DEVICE_TO_HOST : ACL_HOST_TO_HOST);
    char what[64];
    snprintf(what, sizeof what, "aclrtMemcpy of %zu bytes", bytes);
    if (kind == ACL_DEVICE_TO_DEVICE) {
        ACL_TRY(ascend_acl.aclrtMemcpyAsync(dst, bytes, src, bytes, kind, stream), what);
        return TG_OK;
    }
    ASCEND_TRY(wait_for(stream));
    ACL_TRY(ascend_acl.aclrtMemcpy(dst, bytes, src, bytes, kind), what);
    return TG_OK;
}

tg_status ascend_card_copy(int32_t card, void *dst, int dst_device_type, const void *src,
                           int src_device_type, size_t bytes, void *stream)
{
    int32_t before;
    ASCEND_TRY(ascend_card_enter(card, &before));
    const tg_status status = copy(dst, dst_device_type, src, src_device_type, bytes, stream);
    ascend_card_leave(card, before);
    return status;
}
