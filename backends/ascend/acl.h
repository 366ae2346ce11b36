/* acl.h - what the backend uses of CANN's run time, libascendcl.so: our own prototypes of its
 * documented functions. */
#ifndef ASCEND_ACL_H
#define ASCEND_ACL_H

#include <stddef.h>
#include <stdint.h>

enum {
    ACL_SUCCESS = 0,
    ACL_REPEAT_INITIALIZE = 100002, /* aclInit was called before */
    ACL_VECTOR_CORE_NUM = 201,      /* attributes of aclrtGetDeviceInfo */
    ACL_UBUF_PER_VECTOR_CORE = 204,
    ACL_NPU_ARCH = 601,
    ACL_MALLOC_HUGE_FIRST = 0,
    ACL_HOST_TO_HOST = 0,
    ACL_HOST_TO_DEVICE = 1,
    ACL_DEVICE_TO_HOST = 2,
    ACL_DEVICE_TO_DEVICE = 3,
    ACL_EVENT_WITH_TIME = 8,
    ACL_LOAD_MAGIC = 2 /* kinds of aclrtBinaryLoadOption */
};
#define ACL_MAGIC_VECTOR_CORE 0x41415246u
#define ACL_MAGIC_CUBE_CORE 0x41494343u
#define ACL_MAGIC_BOTH_CORES 0x43554245u

typedef struct acl_load_option {
    int kind;
    union {
        uint32_t magic;
        uint32_t reserved[4];
    } value;
} acl_load_option;

typedef struct acl_load_options {
    acl_load_option *options;
    size_t count;
} acl_load_options;

/* X(result, name, arguments) */
#define ACL_FUNCTIONS(X)                                                                          \
    X(int, aclInit, (const char *config))                                                         \
    X(int, aclFinalize, (void))                                                                   \
    X(const char *, aclGetRecentErrMsg, (void))                                                   \
    X(int, aclrtGetDeviceCount, (uint32_t * count))                                               \
    X(int, aclrtGetDevice, (int32_t * device))                                                    \
    X(int, aclrtSetDevice, (int32_t device))                                                      \
    X(int, aclrtResetDevice, (int32_t device))                                                    \
    X(const char *, aclrtGetSocName, (void))                                                      \
    X(int, aclrtGetDeviceInfo, (uint32_t device, int attribute, int64_t *value))                  \
    X(int, aclrtMalloc, (void **memory, size_t bytes, int policy))                                \
    X(int, aclrtFree, (void *memory))                                                             \
    X(int, aclrtMemcpy, (void *dst, size_t room, const void *src, size_t bytes, int kind))        \
    X(int, aclrtMemcpyAsync,                                                                      \
      (void *dst, size_t room, const void *src, size_t bytes, int kind, void *stream))            \
    X(int, aclrtSynchronizeStream, (void *stream))                                                \
    X(int, aclrtCreateEventExWithFlag, (void **event, uint32_t flag))                             \
    X(int, aclrtDestroyEvent, (void *event))                                                      \
    X(int, aclrtRecordEvent, (void *event, void *stream))                                         \
    X(int, aclrtSynchronizeEvent, (void *event))                                                  \
    X(int, aclrtEventElapsedTime, (float *ms, void *from, void *to))                              \
    X(int, aclrtBinaryLoadFromFile, (const char *path, acl_load_options *options, void **binary)) \
    X(int, aclrtBinaryUnLoad, (void *binary))                                                     \
    X(int, aclrtBinaryGetFunction, (const void *binary, const char *name, void **function))       \
    X(int, aclrtGetHardwareSyncAddr, (void **address))                                            \
    X(int, aclrtKernelArgsInit, (void *function, void **args))                                    \
    X(int, aclrtKernelArgsAppend, (void *args, void *value, size_t bytes, void **parameter))      \
    X(int, aclrtKernelArgsFinalize, (void *args))                                                 \
    X(int, aclrtLaunchKernelWithConfig,                                                           \
      (void *function, uint32_t blocks, void *stream, void *config, void *args, void *reserved))

#endif
