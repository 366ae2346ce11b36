/* model/chips.c - the table of chips and its queries; figures that a program tries instead. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

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
    {
#define FACT(name, unit, b1, b2, b3, b4, confidence, source) \
    ENTRY(#name, unit, b1, source, (confidence[0] == 'H' ? 'M' : confidence[0]))
#include "ascsim_chips.inc"
#undef FACT
        END},
};

static const struct {
    const char *beginning;
    int chip;
} other_names[] = {
#define NAMES(beginning, chip) {#beginning, CHIP_##chip},
#include "ascsim_chips.inc"
#undef NAMES
};

static const struct {
    const char *beginning, *why;
} refused[] = {
#define OTHER(beginning, why) {#beginning, why},
#include "ascsim_chips.inc"
#undef OTHER
};

static int begins(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static const char *without_ascend(const char *soc)
{
    return soc && begins(soc, "Ascend") ? soc + 6 : soc;
}

static int chip_index(const char *soc)
{
    soc = without_ascend(soc);
    for (int i = 0; soc && i < CHIPS; i++) {
        if (strcmp(soc, names[i]) == 0) {
            return i;
        }
    }
    for (size_t i = 0; soc && i < sizeof other_names / sizeof *other_names; i++) {
        if (begins(soc, other_names[i].beginning)) {
            return other_names[i].chip;
        }
    }
    return -1;
}

const char *ascsim_chip_refused(const char *soc)
{
    soc = without_ascend(soc);
    for (size_t i = 0; soc && i < sizeof refused / sizeof *refused; i++) {
        if (begins(soc, refused[i].beginning)) {
            return refused[i].why;
        }
    }
    return NULL;
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

/* What ascsim_set_facts() was given. */
enum { MOST_TRIED = 32 };
static struct {
    const char *name; /* the table's */
    double value;
} tried[MOST_TRIED];
static int tried_count;

static const char *fact_name(const char *name, size_t length)
{
    for (int i = 0; i < FACTS; i++)
        if (strlen(facts[0][i].name) == length && !strncmp(facts[0][i].name, name, length))
            return facts[0][i].name;
    return NULL;
}

int ascsim_set_facts(const char *list)
{
    int count = 0;
    for (const char *at = list ? list : ""; *at; count++) {
        char *end;
        const size_t length = strcspn(at, "=,");
        const char *name = at[length] == '=' ? fact_name(at, length) : NULL;
        const double value = name ? strtod(at + length + 1, &end) : 0;
        if (!name || !(value > 0) || (*end && *end != ',') || count == MOST_TRIED)
            return sim_error("\"%s\", expected a fact of the table and a number above 0, such as "
                             "launch_us=3, %d at most with commas between",
                             at, MOST_TRIED);
        tried[count].name = name;
        tried[count].value = value;
        at = end + (*end == ',');
    }
    tried_count = count;
    return 0;
}

double ascsim_chip_fact(const char *soc, const char *name)
{
    const int known = chip_index(soc) >= 0;
    for (int i = 0; known && i < tried_count; i++)
        if (!strcmp(tried[i].name, name))
            return tried[i].value;
    for (const ascsim_fact *fact = ascsim_chip_facts(soc); fact && fact->name; fact++) {
        if (strcmp(fact->name, name) == 0) {
            return fact->value;
        }
    }
    return -1;
}
