/* The check that all rotary embeddings have. */
#include "rotary/rotary.h"

tg_status rotary_check(const rotary_args *p)
{
    if (!p->k == !p->yk)
        return TG_OK;
    return tg_fail(TG_EINVAL, "%s: %s is NULL, expected a tensor, since %s is given", p->op,
                   p->k ? p->yk_name : p->k_name, p->k ? p->k_name : p->yk_name);
}
