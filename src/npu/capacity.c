/* capacity.c - how large the Unified Buffer is: what the caller, the environment, CANN or the
 * table of chips says. */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu/chips.h"
#include "tigon/backend.h"
#include "tigon/npu.h"
#include "tigon/registry.h"

/* An integer as Python reads one: blanks around it, a sign, single underscores between digits. 0 if
 * it is none, not above 0, or does not fit. */
static int64_t positive_integer(const char *text)
{
    int64_t value = 0;
    int digits = 0;
    while (isspace((unsigned char)*text))
        text++;
    text += *text == '+';
    for (; isdigit((unsigned char)*text) ||
           (*text == '_' && digits && isdigit((unsigned char)text[1]));
         text++)
        if (*text != '_') {
            digits++;
            if (__builtin_mul_overflow(value, 10, &value) ||
                __builtin_add_overflow(value, *text - '0', &value))
                return 0;
        }
    while (isspace((unsigned char)*text))
        text++;
    return *text ? 0 : value;
}

static int has_card(void)
{
    const tg_probe *probes;
    const int n = tg_device_probes(&probes);
    for (int i = 0; i < n; i++)
        if (!strcmp(probes[i].device, "npu"))
            return probes[i].count > 0;
    return 0;
}

/* What CANN says of device 0: bytes of UB, or 0, and the name of the chip, or NULL. The probe has
 * initialised it. */
static int64_t ask_cann(const char **soc)
{
    enum { UB_OF_VECTOR_CORE = 204 }; /* ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE */
    int (*device_info)(uint32_t device, int attribute, int64_t *value);
    const char *(*soc_name)(void);
    int64_t bytes = 0;
    void *library = dlopen("libascendcl.so", RTLD_NOW | RTLD_LOCAL);
    *soc = NULL;
    if (!library)
        return 0;
    *(void **)&device_info = dlsym(library, "aclrtGetDeviceInfo");
    *(void **)&soc_name = dlsym(library, "aclrtGetSocName");
    if (soc_name)
        *soc = soc_name();
    if (!device_info || device_info(0, UB_OF_VECTOR_CORE, &bytes) != 0 || bytes < 0 ||
        bytes > INT64_MAX / 8)
        bytes = 0;
    return bytes;
}

static tg_status no_such_chip(const char *what, const char *name)
{
    char known[128] = "";
    for (int i = 0, n = 0; i < tg_npu_chip_count() && n < (int)sizeof known; i++)
        n += snprintf(known + n, sizeof known - (size_t)n, "%s%s", i ? ", " : "",
                      tg_npu_chip_at(i)->name);
    const char *why = tg_npu_chip_refused(name);
    return tg_fail(TG_ENOTFOUND, "%s is \"%s\"%s%s, expected one of %s", what, name,
                   why ? ", which " : "", why ? why : "", known);
}

tg_status tg_ub_capacity_bits(int64_t explicit_bits, const char *soc, int64_t *bits,
                              const char **source)
{
    const char *ignored, *from_env = getenv("ASCEND_UB_CAPACITY_BITS"), *what = "soc";
    source = source ? source : &ignored;
    if (explicit_bits < 0)
        return tg_fail(TG_EINVAL, "explicit_bits is %lld, expected 0 or more",
                       (long long)explicit_bits);
    *source = "given";
    *bits = explicit_bits;
    if (*bits)
        return TG_OK;
    *source = "ASCEND_UB_CAPACITY_BITS";
    *bits = from_env ? positive_integer(from_env) : 0;
    if (*bits)
        return TG_OK;
    if (has_card()) {
        const char *card;
        *source = "CANN";
        *bits = 8 * ask_cann(&card);
        if (*bits)
            return TG_OK;
        if (card) {
            soc = card;
            what = "the card's name";
        }
    }
    if (!soc && (soc = getenv("TIGON_SOC")))
        what = "TIGON_SOC";
    const tg_npu_chip *chip = tg_npu_chip_find(soc ? soc : "910B4");
    if (!chip)
        return no_such_chip(what, soc);
    *source = npu_chip_source(chip);
    *bits = 8 * chip->ub_bytes;
    return TG_OK;
}

/* How the kernels for a card were compiled: as the environment says, or as the build does it. */
static int asc_reserves(void)
{
    const char *text = getenv("TIGON_ASCEND_RESERVED_UBUF");
    return text && (!strcmp(text, "0") || !strcmp(text, "1")) ? *text == '1' : ASCEND_RESERVED_UBUF;
}

int64_t tg_ub_usable_bytes(int64_t capacity_bits)
{
    const int64_t bytes =
        capacity_bits / 8 - TG_UB_RESERVED - (asc_reserves() ? TG_UB_RESERVED_BY_ASC : 0);
    return bytes > 0 ? bytes : 0;
}
