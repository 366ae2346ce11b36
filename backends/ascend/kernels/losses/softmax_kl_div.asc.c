/* softmax_kl_div.asc.c - the divergence of a row of logits' softmax from given probabilities, and
 * the gradient of the logits. A row goes in pieces through the ring (asc_ring.h): once to be
 * read, for the sums of exponentials, of the target and of the loss, and once to be written, if a
 * gradient is wanted:
 *
 *   loss = sum v (log max(v, least) - d) + mass log(total)      d = scale (u - top)
 *   gradient = (factor mass / total) exp(d) - factor v          total = sum exp(d), mass = sum v
 *
 * Arithmetic is f32 in UB. */
#include "softmax_kl_div.h"

#define ASC_TEMPLATE "losses/softmax_kl_div.asc.h"
#include "shared/asc_each_type.h"
