// gezel_bridge.h
//
// C interface of the Rust bridge: chat templates by minijinja, set up to render what Python's jinja2 renders for the same
// template (sandboxed, trim_blocks, lstrip_blocks, loop controls, no escaping; `tojson` is json.dumps(ensure_ascii=False)).
//
// Every function is safe to call from any thread; one template may render on several threads at once. No Rust panic
// crosses this border: it comes back as GEZEL_TEMPLATE_PANIC. Text is UTF-8 with a length and needs no terminator.
// The library also exports llguidance's own C API.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A compiled template. Never changes after it was compiled.
typedef struct gezel_template gezel_template;

// Text that the bridge allocated; free it with gezel_text_free. `data` is null when there is none.
typedef struct {
  char* data;
  size_t size;
} gezel_text;

typedef enum {
  GEZEL_TEMPLATE_OK = 0,
  GEZEL_TEMPLATE_SYNTAX = 1,     // does not compile
  GEZEL_TEMPLATE_UNDEFINED = 2,  // used something that is not defined: a variable, filter, test, function or method
  GEZEL_TEMPLATE_RAISED = 3,     // the template itself called raise_exception(); the message is its own
  GEZEL_TEMPLATE_LIMIT = 4,      // ran past one of gezel_template_limits
  GEZEL_TEMPLATE_CONTEXT = 5,    // the context is not a JSON object
  GEZEL_TEMPLATE_RUNTIME = 6,    // any other failure while rendering
  GEZEL_TEMPLATE_PANIC = 7,      // a bug in the bridge
} gezel_template_error_kind;

typedef struct {
  int32_t kind;       // gezel_template_error_kind
  uint32_t line;      // 1-based line of the template's source, 0 when unknown
  gezel_text message;
} gezel_template_error;

// A template comes out of a downloaded file, so it is not trusted: these bound what one rendering may cost.
typedef struct {
  uint64_t source_bytes;   // longest template source
  uint64_t context_bytes;  // longest context text
  uint64_t output_bytes;   // longest result
  uint64_t fuel;           // work: one unit is one instruction or 64 bytes of data created or looked at
  uint64_t fuel_per_kib;   // added to `fuel` for every KiB of context, so that long conversations keep their share
  uint64_t memory_bytes;   // taken by a rendering at any one moment, beside its context; see gezel_template_on_overrun
  uint64_t memory_per_kib; // added to `memory_bytes` for every KiB of context
} gezel_template_limits;

gezel_template_limits gezel_template_default_limits(void);

// Null on failure, with `error` filled in. `limits` may be null for the defaults.
gezel_template* gezel_template_compile(const char* source, size_t source_size, const gezel_template_limits* limits,
                                       gezel_template_error* error);

// Renders with `context`, the text of a JSON object whose members are the template's variables, in their order.
// `local_seconds` is what strftime_now() sees: the seconds from 1970-01-01 00:00 to now on the wall clock of the place.
// True on success with `out` filled in, false with `error` filled in.
bool gezel_template_render(const gezel_template* handle, const char* context, size_t context_size,
                           int64_t local_seconds, gezel_text* out, gezel_template_error* error);

// Fuel is paid for what an operation of the engine made after it made it, so a single one can take any amount of memory:
// joining or printing a value that holds another one twice, which holds another one twice, and so on. It is stopped by the
// allocator, from where nothing can be undone. `handler` is called there, on the rendering thread, for the whole process; it
// should end the process, and when it returns, or when there is none, the process aborts. It may allocate, but not render.
void gezel_template_on_overrun(void (*handler)(void));

void gezel_template_free(gezel_template* handle);   // null is fine
void gezel_text_free(gezel_text* text);             // empties it; a null pointer or empty text is fine

#ifdef __cplusplus
}
#endif
