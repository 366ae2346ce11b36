/* src/core/shape.h - shapes of arguments: the column `shape` of ops.def, read once into lists of
 * names that every call is held against. ops.def tells what the column means.
 */
#ifndef TG_CORE_SHAPE_H
#define TG_CORE_SHAPE_H

#include "core/core.h"

enum { SHAPE_NAMES = 24, SHAPE_LISTS = 24, SHAPE_SUMS = 4, SHAPE_TERMS = 3, SHAPE_NONE = 255 };

/* A word of a shape. */
typedef enum shape_kind {
    SHAPE_SIZE,    /* N: a size of that name */
    SHAPE_SEVERAL, /* *R: any number of sizes */
    SHAPE_OPTION,  /* num_groups */
    SHAPE_NUMBER   /* 3 */
} shape_kind;

typedef struct shape_name {
    const char *text; /* length characters of the column; "" for * alone */
    int length;
    shape_kind kind;
    int64_t number; /* the number, or the slot of the option */
} shape_name;

/* L+E, 2*D: names[i][0] * names[i][1] + ...; SHAPE_NONE: no second factor. Bit i of `quotients`:
 * names[i][0] / names[i][1], rounded up. */
typedef struct shape_sum {
    uint8_t count, quotients;
    uint8_t names[SHAPE_TERMS][2];
} shape_sum;

/* Sizes in a row, several of them perhaps before size `at`. */
typedef struct shape_list {
    uint8_t count;
    uint8_t dim[TG_MAX_NDIM]; /* a name; from SHAPE_NAMES on a sum */
    uint8_t at;               /* SHAPE_NONE: none but these */
    uint8_t as_many;          /* 1: ~[...], and `several` is a list; 0: *R, a name */
    uint8_t several;
} shape_list;

/* Lists that follow each other, of which one must fit: A | B */
typedef struct shape_range {
    uint8_t first, count;
} shape_range;

/* option=value ? yes : no; without a condition yes alone */
typedef struct shape_rule {
    uint8_t option; /* its slot; SHAPE_NONE: no condition */
    int64_t value;
    shape_range yes, no;
} shape_rule;

/* How a tensor is held against its list in the good case, see shape_plan.c. */
typedef enum shape_step_kind {
    STEP_LIKE,     /* it is of the shape of another */
    STEP_SIZES,    /* N; B,L,V */
    STEP_SEVERAL,  /* *R,N */
    STEP_ELEMENTS, /* ~[*R,3], of what is known */
    STEP_LISTS,    /* else */
    STEP_CALL      /* nothing can be said of the whole call before it is looked at */
} shape_step_kind;

typedef struct shape_step {
    uint8_t kind;
    uint8_t count, at, several; /* as in shape_list; of STEP_ELEMENTS what is in brackets */
    uint16_t binds; /* bit i: dim[i] is a name that becomes known; bit TG_MAX_NDIM: `several` */
    uint8_t dim[TG_MAX_NDIM];
    uint32_t known; /* names that are known before */
} shape_step;

/* Of a tensor argument. */
typedef struct shape_arg {
    uint8_t slot;
    uint8_t
        like; /* slot of the first argument of the same words: its very shape; SHAPE_NONE: none */
    shape_rule rule;
    shape_step step[2]; /* by rule.yes and rule.no */
} shape_arg;

typedef struct op_shapes {
    int names, lists, sums, count;
    uint32_t fixed; /* names that are numbers or options */
    shape_name name[SHAPE_NAMES];
    shape_list list[SHAPE_LISTS];
    shape_sum sum[SHAPE_SUMS];
    shape_arg at[MAX_ARGS]; /* tensors, in the order in which they are held against their shapes */
} op_shapes;

/* What names stand for in a call. */
typedef struct shape_sizes {
    uint32_t known;
    int64_t size[SHAPE_NAMES];        /* of SHAPE_SEVERAL how many there are, */
    const int64_t *dims[SHAPE_NAMES]; /* and which */
} shape_sizes;

static inline int tg_size_is_known(const shape_sizes *z, int name)
{
    return (int)(z->known >> name & 1u);
}

static inline void tg_size_learn(shape_sizes *z, int name, int64_t size)
{
    z->known |= 1u << name;
    z->size[name] = size;
}

/* The n sizes of a name that stands for several. */
static inline void tg_size_learn_several(shape_sizes *z, int name, const int64_t *dims, int n)
{
    tg_size_learn(z, name, n);
    z->dims[name] = dims;
}

/* Lists are there once, and so these are the same words. */
static inline int tg_same_lists(shape_range a, shape_range b)
{
    return a.first == b.first && a.count == b.count;
}

/* shape_read.c: adds what a text says to `shapes`, whose operator is op. -1 if
 * it cannot be read. */
int tg_shape_read(op_shapes *shapes, const tg_op_info *op, const char *text, shape_rule *rule);

/* shape.c */
extern op_shapes tg_shapes[TG_OP_COUNT];
/* Numbers and options become known, from an argument struct; all other names are not. */
void tg_shape_begin(const op_shapes *shapes, shape_sizes *z, const uint64_t *slots);
/* The lists that a rule gives in a call. */
shape_range tg_shape_range(const shape_rule *rule, const uint64_t *slots);
/* The value of a dimension, -1 if a name in it is not known. */
int64_t tg_shape_value(const op_shapes *shapes, const shape_sizes *z, int dim);
/* The elements of a list, -1 if a name in it is not known, INT64_MAX if 64 bits
 * do not hold them. */
int64_t tg_shape_elements(const op_shapes *shapes, const shape_sizes *z, const shape_list *list);
/* The first dimension of t that is not as the list says, t->ndim if all are, -1 if their number
 * cannot be right. Names that are not known become so. */
int tg_shape_match(const op_shapes *shapes, shape_sizes *z, const shape_list *list,
                   const tg_tensor *t);
/* 1 if the tensor is as one of the lists says. */
int tg_shape_fits(const op_shapes *shapes, shape_sizes *z, shape_range range, const tg_tensor *t);

/* The whole check of a call that has passed tg_check_schema(), with its message. */
tg_status tg_shape_check(int op, const op_shapes *shapes, const void *args);

/* shape_plan.c: fills in the steps */
void tg_shape_plan(op_shapes *shapes, const tg_op_info *op);

/* shape_words.c: the message about the tensor at[index], where those before it fit and gave z. */
tg_status tg_shape_refuse(int op, const op_shapes *shapes, const shape_sizes *z, int index,
                          const tg_tensor *const *slots);
/* "[B,L+E,V]": a list with the sizes of what is known; names for the rest */
void tg_shape_text(const op_shapes *shapes, const shape_sizes *z, const shape_list *list,
                   char *text, size_t size);

#endif
