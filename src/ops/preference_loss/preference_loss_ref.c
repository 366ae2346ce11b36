/* preference_loss: the definition is in preference_loss_shared.c. */
#include "preference_loss.h"

TG_REF_IMPLS(preference_loss) = {TG_REF_IMPL(preference_loss_forward, preference_loss_forward),
                                 TG_REF_IMPL(preference_loss_backward, preference_loss_backward),
                                 TG_IMPLS_END};
