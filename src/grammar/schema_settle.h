// grammar/schema_settle.h
//
// What the library itself has to say about a schema in normal form, with the place it speaks of.
#pragma once
#include "grammar/matcher.h"
#include "grammar/schema_walk.h"

namespace gezel::grammar {

// Makes sure that the library compiles the schema. What it cannot compile is an error `constraint-unusable`
// that names the smallest such part in `param` (strict), or that part is left out with a warning (lenient).
Result<> settle_schema(WalkedSchema& schema, SchemaMode mode, const MatcherLimits& limits = {});

}  // namespace gezel::grammar
