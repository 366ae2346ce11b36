/* policy_loss on the CPU where grpo_loss_cpu_policy.c declines: the definition. */
#include "core/parts.h"
#include "grpo_loss.h"

TG_PARTS_CALLS(grpo_loss) = {NULL};
TG_PARTS_IMPLS(grpo_loss) = {
    TG_IMPL(policy_loss_forward, "", 0, TG_TAKES_FLOATS | TG_BATCH_INVARIANT, NULL,
            policy_loss_forward),
    TG_IMPL(policy_loss_backward, "", 0, TG_TAKES_FLOATS | TG_BATCH_INVARIANT, NULL,
            policy_loss_backward),
    TG_IMPLS_END};
