/* tests/threads/on_pthreads.c - linked into the command in front of tg_ctx_create (ld's --wrap): every context runs on
 * four pthreads. So the checker drives each kernel under ThreadSanitizer. */
#include <tigon/tigon.h>

#include "executor.h"

tg_status __real_tg_ctx_create(tg_ctx **ctx);
tg_status __wrap_tg_ctx_create(tg_ctx **ctx);

tg_status __wrap_tg_ctx_create(tg_ctx **ctx)
{
    tg_status status = __real_tg_ctx_create(ctx);
    if (!status)
        status = tg_ctx_set_executor(*ctx, run_on_pthreads, NULL);
    if (!status)
        status = tg_ctx_set_threads(*ctx, 4);
    return status;
}
