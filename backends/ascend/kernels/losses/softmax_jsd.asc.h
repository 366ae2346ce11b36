/* softmax_jsd.asc.h - the kernel of one type; see asc_each_type.h. */
#include "softmax_jsd_body.asc.h"

ASC_KERNEL ASC_NAME(softmax_jsd)(ASC_PARAMS(SOFTMAX_JSD))
{
    ASC_NAME(softmax_jsd_body)(asc_get_block_idx(), asc_get_block_num(), ASC_NAMES(SOFTMAX_JSD));
}
