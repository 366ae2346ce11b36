/* tools/tigon/share/csv.h - Liger's all_benchmark_data.csv: one row a point. `tigon bench` writes
 * it, `tigon plot` draws it. */
#ifndef TIGON_SHARE_CSV_H
#define TIGON_SHARE_CSV_H

#include <stddef.h>

enum {
    CSV_KERNEL,
    CSV_PROVIDER,
    CSV_MODE,
    CSV_METRIC,
    CSV_UNIT,
    CSV_X_NAME,
    CSV_X_LABEL,
    CSV_X_VALUE,
    CSV_Y50,
    CSV_Y20,
    CSV_Y80,
    CSV_EXTRA,
    CSV_DEVICE,
    CSV_TIME,
    CSV_VERSION,
    CSV_COLUMNS
};

extern const char *const csv_header[CSV_COLUMNS];

typedef struct csv_row {
    char *field[CSV_COLUMNS];
} csv_row;

typedef struct csv_table {
    int count;
    csv_row *rows;
} csv_table;

/* Cuts one record of any CSV in place, quotes taken off, into `most` fields. Returns what follows;
 * *count may be larger than `most`. */
char *csv_cut(char *at, char **field, int most, int *count);

/* 1 if the text begins as such a file does. */
int csv_is(const char *text);
/* Appends the rows of a text, which is cut to pieces on the way. 0, or -1 with the error, which
 * begins with `path`. */
int csv_read(csv_table *t, char *text, const char *path, char *error, size_t size);
/* Appends copies of the fields; -1: out of memory. */
int csv_add(csv_table *t, char *const field[CSV_COLUMNS]);
void csv_drop_row(csv_table *t, int row);
void csv_free(csv_table *t);

#endif
