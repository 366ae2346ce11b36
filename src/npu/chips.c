/* chips.c - the chips that are known. Their figures are those of the model, which has
 * each with its source. */
#include "npu/chips.h"

#include <pthread.h>
#include <string.h>
#include <strings.h>

static tg_npu_chip chips[] = {
#define CHIP(chip) {.name = #chip},
#include "ascsim_chips.inc"
#undef CHIP
};

static const char *const sources[] = {
#define CHIP(chip) "the table of chips, " #chip,
#include "ascsim_chips.inc"
#undef CHIP
};

enum { CHIPS = sizeof chips / sizeof *chips };

static const struct {
    const char *name;
    double value[CHIPS];
} facts[] = {
#define FACT(name, unit, b1, b2, b3, b4, confidence, source) {#name, {b1, b2, b3, b4, b1}},
#include "ascsim_chips.inc"
#undef FACT
};

/* Names that begin so are a chip of the table by another name, */
static const struct {
    const char *beginning, *chip;
} other_names[] = {
#define NAMES(beginning, chip) {#beginning, #chip},
#include "ascsim_chips.inc"
#undef NAMES
};

/* or one that is none of them. */
static const struct {
    const char *beginning, *why;
} refused[] = {
#define OTHER(beginning, why) {#beginning, why},
#include "ascsim_chips.inc"
#undef OTHER
};

static double fact(int chip, const char *name)
{
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (strcmp(facts[i].name, name) == 0)
            return facts[i].value[chip];
    return 0;
}

static void fill(void)
{
    for (int i = 0; i < CHIPS; i++) {
        chips[i].vector_cores = (int)fact(i, "vector_cores");
        chips[i].clock_mhz = (int)fact(i, "clock_mhz");
        chips[i].ub_bytes = (int64_t)fact(i, "ub_bytes");
        chips[i].l2_bytes = (int64_t)fact(i, "l2_bytes");
    }
}

int tg_npu_chip_count(void)
{
    return CHIPS;
}

const tg_npu_chip *tg_npu_chip_at(int chip)
{
    static pthread_once_t filled = PTHREAD_ONCE_INIT;
    pthread_once(&filled, fill);
    return chip >= 0 && chip < CHIPS ? &chips[chip] : NULL;
}

static int begins(const char *text, const char *beginning)
{
    return !strncasecmp(text, beginning, strlen(beginning));
}

static const char *without_ascend(const char *name)
{
    return begins(name, "ascend") ? name + strlen("ascend") : name;
}

const tg_npu_chip *tg_npu_chip_find(const char *name)
{
    if (!name)
        return NULL;
    name = without_ascend(name);
    for (int i = 0; i < CHIPS; i++) {
        const size_t n = strlen(chips[i].name);
        if (begins(name, chips[i].name) && (!name[n] || name[n] == '-'))
            return tg_npu_chip_at(i);
    }
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (begins(name, other_names[i].beginning))
            return tg_npu_chip_find(other_names[i].chip);
    return NULL;
}

const char *tg_npu_chip_refused(const char *name)
{
    name = name ? without_ascend(name) : "";
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (begins(name, refused[i].beginning))
            return refused[i].why;
    return NULL;
}

const char *npu_chip_source(const tg_npu_chip *chip)
{
    return sources[chip - chips];
}
