/* cross_entropy.asc.h - the kernel of one type; see asc_each_type.h. */
#include "cross_entropy_body.asc.h"

ASC_KERNEL ASC_NAME(cross_entropy)(ASC_PARAMS(CROSS_ENTROPY))
{
    ASC_NAME(cross_entropy_body)(asc_get_block_idx(), ASC_NAMES(CROSS_ENTROPY));
}
