/* fused_ce_tvd.asc.c - cross entropy of the student's logits and the total variation distance
 * between the softmaxes of student and teacher, and their gradient. Each block has a run of
 * consecutive rows, which go through a ring of pieces (asc_ring.h): forward twice, for the sums of
 * exponentials and for the distance (fused_ce_tvd_plain.h), and once more where a row needs it;
 * backward once, with what forward has saved.
 *
 * Arithmetic is f32 in UB. */
#include "fused_ce_tvd_plain.h"

#define ASC_TEMPLATE "losses/fused_ce_tvd.asc.h"
#include "shared/asc_each_type.h"
