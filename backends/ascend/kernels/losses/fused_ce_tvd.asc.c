/* fused_ce_tvd.asc.c - cross entropy of the student's logits and the total variation distance
 * between the softmaxes of student and teacher, and their gradient. Each block has a run of
 * consecutive rows, which go through a ring of pieces (asc_ring.h): forward twice, for the sums of
 * exponentials, from which the largest stands apart (softmax_logp.h), and for the distance;
 * backward once, with what forward has saved.
 *
 * Arithmetic is f32 in UB. */
#include "fused_ce_tvd.h"

#define ASC_TEMPLATE "losses/fused_ce_tvd.asc.h"
#include "shared/asc_each_type.h"
