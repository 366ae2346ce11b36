/* A libascendcl.so of four functions, that answers what the environment says at that moment:
 * CARDS, CARD_UB (bytes; -1: an error), CARD_NAME. */
#include <stdint.h>
#include <stdlib.h>

int aclInit(const char *config)
{
    return config ? 1 : 0;
}

int aclrtGetDeviceCount(uint32_t *count)
{
    *count = (uint32_t)atoi(getenv("CARDS"));
    return 0;
}

int aclrtGetDeviceInfo(uint32_t device, int attribute, int64_t *value)
{
    const int ub_of_a_vector_core = 204;
    const int64_t ub = atoll(getenv("CARD_UB"));
    if (device != 0 || attribute != ub_of_a_vector_core || ub < 0)
        return 107000;
    *value = ub;
    return 0;
}

const char *aclrtGetSocName(void)
{
    return getenv("CARD_NAME");
}
