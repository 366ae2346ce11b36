/* softmax_jsd.asc.c - jsd of the softmaxes of two rows of logits, and the gradient of the first. A
 * row goes in pieces through the ring (asc_ring.h), up to four times:
 *
 *   maxima and sums of exponentials, lane by lane
 *   the teacher's logit of the student's likeliest class, whose slope is the middle that all
 *   slopes are taken relative to the loss, and the sum of q (slope - middle) the gradient: q
 *   (slope - middle - that sum)
 *
 * The slope of a class is its X - log M, or for beta 1 X - Y: see src/ops/softmax_jsd.
 * Arithmetic is f32 in UB. */
#include "softmax_jsd.h"

#define ASC_TEMPLATE "losses/softmax_jsd.asc.h"
#include "shared/asc_each_type.h"
