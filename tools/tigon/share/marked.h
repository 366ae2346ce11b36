/* tools/tigon/share/marked.h - text that a command keeps up to date inside a document: it
 * stands between the lines
 *
 *   <!-- tigon numerics: table -->
 *   <!-- end: tigon numerics: table -->
 */
#ifndef TIGON_SHARE_MARKED_H
#define TIGON_SHARE_MARKED_H

#include "file.h"

/* 0 if the file has both markers of `name`, or -1 after a message on stderr: to be asked before the
 * work. */
int marked_check(const char *command, const char *file, const char *name);
/* What stands between the markers, to be freed; NULL after a message on stderr. */
char *marked_text(const char *command, const char *file, const char *name);
/* Replaces what stands between the markers of `name` by what `write` writes. 0, or -1 after a
 * message on stderr. */
int marked_write(const char *command, const char *file, const char *name, file_writer write,
                 const void *arg);

#endif
