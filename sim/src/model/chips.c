/* model/chips.c - the table of chips and its queries. */
#include <string.h>

#include "ascsim.h"

enum {
#define CHIP(chip) CHIP_##chip,
#include "ascsim_chips.inc"
#undef CHIP
    CHIPS
};

static const char *const names[CHIPS] = {
#define CHIP(chip) #chip,
#include "ascsim_chips.inc"
#undef CHIP
};

#define FACT(name, unit, b1, b2, b3, b4, confidence, source) +1
enum {
    FACTS = 0
#include "ascsim_chips.inc"
};
#undef FACT

#define ENTRY(name, unit, value, source, confidence) {name, unit, value, source, confidence},
#define END                    \
    {                          \
        NULL, NULL, 0, NULL, 0 \
    }
static const ascsim_fact facts[CHIPS][FACTS + 1] = {
    {
#define FACT(name, unit, b1, b2, b3, b4, confidence, source) \
    ENTRY(#name, unit, b1, source, confidence[0])
#include "ascsim_chips.inc"
#undef FACT
        END},
    {
#define FACT(name, unit, b1, b2, b3, b4, confidence, source) \
    ENTRY(#name, unit, b2, source, confidence[1])
#include "ascsim_chips.inc"
#undef FACT
        END},
    {
#define FACT(name, unit, b1, b2, b3, b4, confidence, source) \
    ENTRY(#name, unit, b3, source, confidence[2])
#include "ascsim_chips.inc"
#undef FACT
        END},
    {
#define FACT(name, unit, b1, b2, b3, b4, confidence, source) \
    ENTRY(#name, unit, b4, source, confidence[3])
#include "ascsim_chips.inc"
#undef FACT
        END},
};

static int chip_index(const char *soc)
{
    if (soc && strncmp(soc, "Ascend", 6) == 0) {
        soc += 6;
    }
    for (int i = 0; soc && i < CHIPS; i++) {
        if (strcmp(soc, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

const char *ascsim_chip_name(int index)
{
    return index >= 0 && index < CHIPS ? names[index] : NULL;
}

const ascsim_fact *ascsim_chip_facts(const char *soc)
{
    const int index = chip_index(soc);
    return index < 0 ? NULL : facts[index];
}

double ascsim_chip_fact(const char *soc, const char *name)
{
    for (const ascsim_fact *fact = ascsim_chip_facts(soc); fact && fact->name; fact++) {
        if (strcmp(fact->name, name) == 0) {
            return fact->value;
        }
    }
    return -1;
}
