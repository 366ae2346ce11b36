/* src/rows/level.h - names of functions that have a body of their own at each ISA level, in a .c
 * file: to the linker columns_load is tg_columns_load_v3.
 *
 *   #define columns_load TG_AT_LEVEL(columns_load)
 *   tg_status columns_load(...);
 */
#ifndef TG_ROWS_LEVEL_H
#define TG_ROWS_LEVEL_H

#include "core/services.h"

#define TG_AT_LEVEL(name) TG_PASTE4(tg_, name, _, TG_LEVEL)

#endif
