/* A stand-in for CANN's libascendcl.so, built under that name: enough of its documented functions
 * for the host path of the backend, on a device that does not exist. It writes down every call, and
 * what is wrong with it. Device memory is host memory at a constant distance, so that a plain
 * access fails. Kernels are not run, or on the model (stand_in_model.c).
 *
 *   STAND_IN_RECORD=FILE     a line a call; "VIOLATION ..." where a rule of the run time is broken
 *   STAND_IN_FAIL=NAME       that function answers error 507899
 *   STAND_IN_FAIL=NAME:N     at its Nth call alone
 *   STAND_IN_DEVICES, STAND_IN_CORES, STAND_IN_UB, STAND_IN_SOC, STAND_IN_ARCH   what the card says
 *                                                                                of itself
 *   STAND_IN_MODEL=FOLDER    kernels run on the model, libascsim.so there; those of files that are
 *                            no library, of libtigon_ascend_model.so there
 *   STAND_IN_FACTS=LIST      what this card is like: other figures than the model's
 *   STAND_IN_PROFILE=FILE    a line a launch, as msprof's op_summary has them */
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

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
    *device = current_device;
    return device_is_set ? 0 : NO_DEVICE;
}

API int aclrtSetDevice(int32_t device)
{
    BEGIN("aclrtSetDevice", 0);
    if (device < 0 || device >= number("STAND_IN_DEVICES", 1))
        return violation("aclrtSetDevice", "there is no such device");
    device_is_set = 1;
    current_device = device;
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
    enum { VECTOR_CORES = 201, UB_OF_A_CORE = 204, ARCHITECTURE = 601 };
    (void)device;
    BEGIN("aclrtGetDeviceInfo", 0);
    if (attribute == VECTOR_CORES)
        *value = number("STAND_IN_CORES", 40);
    else if (attribute == UB_OF_A_CORE)
        *value = number("STAND_IN_UB", 196608);
    else if (attribute == ARCHITECTURE)
        *value = number("STAND_IN_ARCH", 2201);
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
    if (model_is_card())
        model_map((void *)(uintptr_t)t->words[1], bytes);
    *memory = (void *)(uintptr_t)t->words[0];
    return 0;
}

API int aclrtFree(void *memory)
{
    BEGIN("aclrtFree", 1);
    for (int i = 0; i < SLOTS; i++)
        if (things[i].is == MEMORY && things[i].words[0] == (uint64_t)(uintptr_t)memory) {
            if (model_is_card())
                model_unmap((void *)(uintptr_t)things[i].words[1]);
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

static int copy(void *dst, size_t room, const void *src, size_t bytes, int how)
{
    char *to = side(dst, bytes, how == 1 || how == 3), *from = side(src, bytes, how >= 2);
    if (how < 0 || how > 3 || !to || !from || room < bytes)
        return violation("aclrtMemcpy", "addresses or sizes that do not fit the kind of copy");
    memcpy(to, from, bytes);
    if (model_is_card() && how != 2 && how != 0)
        model_written(to, bytes);
    return 0;
}

API int aclrtMemcpy(void *dst, size_t room, const void *src, size_t bytes, int how)
{
    BEGIN("aclrtMemcpy", 1);
    return copy(dst, room, src, bytes, how);
}

API int aclrtMemcpyAsync(void *dst, size_t room, const void *src, size_t bytes, int how,
                         void *stream)
{
    (void)stream;
    BEGIN("aclrtMemcpyAsync", 1);
    if (how != 3)
        return violation("aclrtMemcpyAsync", "a side that is host memory, which is not pinned");
    return copy(dst, room, src, bytes, how);
}

/* ---- streams ---- */

API int aclrtCreateStream(void **stream)
{
    BEGIN("aclrtCreateStream", 1);
    *stream = create(STREAM);
    return 0;
}

API int aclrtDestroyStream(void *stream)
{
    BEGIN("aclrtDestroyStream", 1);
    return destroy("aclrtDestroyStream", stream, STREAM);
}

API int aclrtSynchronizeStream(void *stream)
{
    BEGIN("aclrtSynchronizeStream", 1);
    return is_here("aclrtSynchronizeStream", find(stream, STREAM)) ? 0 : INVALID;
}
