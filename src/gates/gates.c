/* What gated activations check alike. */
#include "gates/gates.h"

tg_status gates_check(const char *op, const char *name, const tg_tensor *up, int64_t interleaved)
{
    if (interleaved && up)
        return tg_fail(TG_EINVAL, "%s: %s is given, expected NULL: with interleaved, gate has both",
                       op, name);
    if (!interleaved && !up)
        return tg_fail(TG_EINVAL, "%s: %s is NULL, expected a tensor", op, name);
    return TG_OK;
}
