/* tools/tigon/schema_json.h - the run-time schema as JSON. */
#ifndef TIGON_SCHEMA_JSON_H
#define TIGON_SCHEMA_JSON_H

#include <tigon/tigon.h>

#include "json.h"

/* "types": the rules of element types, by name, in words. */
void schema_type_rules(json *j);
/* "arguments": those of an operator, in slot order. */
void schema_arguments(json *j, const tg_op_info *op);

#endif
