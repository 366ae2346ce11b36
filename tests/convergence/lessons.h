/* lessons.h - what the nets of the convergence tests learn: a text, a teacher's distributions, a
 * reward.
 *
 * A course is one net on its way: its context decides on the implementations. Data, draws and the frozen net
 * beside it are the same in every course of a variant and type, whatever implementations it runs.
 */
#ifndef CONVERGENCE_LESSONS_H
#define CONVERGENCE_LESSONS_H

#include "net.h"

typedef struct course course;
/* step: one step of training; returns what the curve shows. loss: that of a distillation, which
 * writes value, dy and embed.g. */
typedef struct lesson {
    void (*open)(course *c);
    double (*step)(course *c, int64_t step);
    void (*loss)(course *c);
    int64_t vocab, batch, seq;
} lesson;

extern const lesson language; /* the next byte of a text */
extern const lesson distill_fused, distill_jsd, distill_kl_div, distill_tvd;
extern const lesson grpo_fixed, grpo_own; /* GRPO on given completions; on the policy's own */

struct course {
    const lesson *l;
    double rate;   /* learning rate after the warm-up */
    tg_ctx *plain; /* the default implementations: for what must be the same in every course */
    net n, other;  /* other: the frozen teacher or reference policy */
    tensor target, loss;
    tensor logits, dlogits, logits2; /* [rows, vocab]: of n, their gradient; of the other net */
    tensor advantages, old_logp, ref_logp, lse; /* of GRPO */
    float value;                                /* of the loss */
};

/* The bytes to learn: the same for all courses. Ends the program if the file cannot be read. */
void lessons_text(const char *path);
/* The windows of the text from number `first` on, one a sequence, as tokens of `n` and, unless
 * NULL, targets. A window is drawn by its number: however a batch is cut, it holds the same. */
void lessons_load(net *n, tensor *target, int64_t first);

void course_open(course *c, const lesson *l, const norm_kind *kind, tg_type type, double rate,
                 tg_ctx *ctx, tg_ctx *plain);
void course_close(course *c);

/* The learning rate of a step: a linear warm-up, then constant. */
double course_rate(const course *c, int64_t step);
/* The logits of a net that has run forward; from dlogits, the gradients of y and of the output
 * matrix. */
void course_logits(net *n, tensor *logits);
void course_logits_back(course *c);

#endif
