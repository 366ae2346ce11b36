/* The planner and the model say the same of each chip: its facts stand once, and each reads
 * them in its own way. */
#include <ascsim.h>
#include <tigon/npu.h>

#include "../common/test.h"

static void same(const tg_npu_chip *chip, const char *fact, int64_t ours)
{
    const double theirs = ascsim_chip_fact(chip->name, fact);
    EXPECT(theirs == (double)ours, "%s: %s is %.0f in the model, %lld in the planner", chip->name,
           fact, theirs, (long long)ours);
}

int main(void)
{
    for (int i = 0; i < tg_npu_chip_count(); i++) {
        const tg_npu_chip *chip = tg_npu_chip_at(i);
        same(chip, "vector_cores", chip->vector_cores);
        same(chip, "clock_mhz", chip->clock_mhz);
        same(chip, "ub_bytes", chip->ub_bytes);
        same(chip, "l2_bytes", chip->l2_bytes);
        same(chip, "ub_usable_bytes", tg_ub_usable_bytes(8 * chip->ub_bytes));
    }
    for (int i = 0; ascsim_chip_name(i); i++) {
        const tg_npu_chip *chip = tg_npu_chip_find(ascsim_chip_name(i));
        EXPECT(chip, "the planner does not know %s", ascsim_chip_name(i));
    }
    return report();
}
