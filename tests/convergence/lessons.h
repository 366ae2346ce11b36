/* lessons.h - what the trainer's model learns in the convergence tests: a text, a teacher's
 * distributions, a reward.
 *
 * A course is one model of the trainer (examples/llama) on its way: its run's context decides on
 * the implementations. Data, draws and the frozen model beside it are the same in every course of a
 * variant and type, whatever implementations it runs.
 */
#ifndef CONVERGENCE_LESSONS_H
#define CONVERGENCE_LESSONS_H

#include "../../examples/llama/data.h"
#include "../../examples/llama/model.h"
#include "numbers.h"

typedef struct course course;
/* step: one step of training; returns what the curve shows. loss: that of a distillation, which
 * writes the loss and the gradients of the stream and of the output matrix. times: by how much
 * matrices begin larger than the trainer makes them: in so narrow a model attention to a text would
 * else be nearly even at first, its gradients mostly rounding, and AdamW, which divides by their
 * size, would carry that into the parameters. */
typedef struct lesson {
    void (*open)(course *c);
    double (*step)(course *c, int64_t step);
    void (*loss)(course *c);
    int64_t vocab, batch, seq;
    float times;
} lesson;

extern const lesson language; /* the next byte of a text */
extern const lesson distill_fused, distill_jsd, distill_kl_div, distill_tvd;
extern const lesson grpo_fixed, grpo_own; /* GRPO on given completions; on the policy's own */

/* A model, its run and what it is made of. Not to be copied. */
typedef struct learner {
    options o;
    run r;
    model m;
    int64_t updates;
} learner;

struct course {
    const lesson *l;
    corpus *text;
    learner n,
        other; /* other: the frozen teacher or reference policy, by the default implementations */
    array logits, dlogits, logits2; /* [rows, vocab]: of n, their gradient; of the other model */
    array target;                   /* of GRPO, as all that follow: [batch, length]; [batch] */
    array old_logp, ref_logp, lse, advantages;
};

/* The bytes of a file, as the trainer reads them: the same for all courses. */
void lesson_text(corpus *c, const char *path);
/* The sizes of a lesson's model, and constant learning rates behind a warm-up. */
options lesson_options(const lesson *l, const char *type, double rate);

/* A zeroed compact tensor. */
void take_array(learner *n, array *a, tg_type type, int ndim, const int64_t *shape);
#define SHAPE(...)                                                         \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) \
    {                                                                      \
        __VA_ARGS__                                                        \
    }

/* impl: backends in order, cpu_max: the highest level of the processor; NULL: what there is. */
void learner_open(learner *n, const lesson *l, const options *o, const char *impl,
                  const char *cpu_max);
void learner_close(learner *n);
/* From the gradients of the passes to the next parameters. */
void learner_update(learner *n);
/* Parameter i as the optimizer holds it. */
float learner_parameter(const learner *n, int64_t i);

void course_open(course *c, const lesson *l, corpus *text, const options *o, const char *impl,
                 const char *cpu_max);
void course_close(course *c);
/* The logits of a model that has run forward; from dlogits, the gradients of the stream and of
 * the output matrix. */
void course_logits(learner *n, array *logits);
void course_logits_back(course *c);
/* The loss of the step. */
double course_loss(const course *c);

#endif
