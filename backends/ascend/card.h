/* card.h - what runtime_acl.c, launch_acl.c and card_memory.c share. */
#ifndef ASCEND_CARD_H
#define ASCEND_CARD_H

#include <pthread.h>

#include "acl.h"
#include "runtime.h"

enum { CARD_KERNELS = 256, CARD_BINARIES = ASCEND_MIX_CORES + 1 };

/* CANN's functions, once a card is open. */
extern struct ascend_acl {
#define X(result, name, arguments) result(*name) arguments;
    ACL_FUNCTIONS(X)
#undef X
} ascend_acl;

/* The kernels as one card has them. */
typedef struct ascend_code {
    void *binary[CARD_BINARIES];
    struct {
        char name[96];
        void *function;
    } kernel[CARD_KERNELS];
    int kernels;
} ascend_code;
/* Of a card that was taken; ascend_code_lock is held while it is looked at. */
ascend_code *ascend_code_of(int32_t card);
extern pthread_mutex_t ascend_code_lock;

tg_status ascend_card_launch(const ascend_call *call);

/* "aclrtMalloc of 4096 bytes answers error 207001: <what the driver says>" */
tg_status ascend_acl_fail(int error, const char *what);
#define ACL_TRY(call, what)                         \
    do {                                            \
        const int error_ = (call);                  \
        if (error_ != ACL_SUCCESS)                  \
            return ascend_acl_fail(error_, (what)); \
    } while (0)

#endif
