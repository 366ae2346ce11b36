/* preference_loss on the CPU where preference_loss_cpu.c declines: the definition. */
#include "core/parts.h"
#include "preference_loss.h"

TG_PARTS_CALLS(preference_loss) = {NULL};
TG_PARTS_IMPLS(preference_loss) = {
    TG_IMPL(preference_loss_forward, "", 0, TG_TAKES_FLOATS | TG_BATCH_INVARIANT, NULL,
            preference_loss_forward),
    TG_IMPL(preference_loss_backward, "", 0, TG_TAKES_FLOATS | TG_BATCH_INVARIANT, NULL,
            preference_loss_backward),
    TG_IMPLS_END};
