/* tools/tigon/list/schema.h - the run-time schema as JSON. */
#ifndef TIGON_LIST_SCHEMA_H
#define TIGON_LIST_SCHEMA_H

#include <tigon/tigon.h>

#include "formats/json.h"

/* "types": the rules of element types, by name, in words. */
void schema_type_rules(json *j);
/* "arguments": those of an operator, in slot order. */
void schema_arguments(json *j, const tg_op_info *op);

#endif
