//! The one door through which Rust enters the project: llguidance's own C API, re-exported, and a C API for minijinja
//! (`include/gezel_bridge.h`) that renders chat templates as Python's jinja2 does.
//!
//! * `ffi`: the C functions; nothing else touches a pointer.
//! * `renderer`: a compiled template, its limits and its errors.
//! * `environment`, `filters`: the filters, tests, functions and methods a template sees.
//! * `idioms`: what is rewritten in the source before it is compiled.
//! * `budget`: fuel and time for our own work.
//! * `memory`: what one rendering may allocate.
//! * `python`: how Python prints values and cuts strings.
//! * `dumps`: json.dumps.
//! * `clock`: strftime on a given time.

mod budget;
mod clock;
mod dumps;
mod environment;
mod ffi;
mod filters;
mod idioms;
mod memory;
mod python;
mod renderer;

pub use ffi::*;
pub use llguidance::ffi::*;
pub use renderer::{Failure, FailureKind, Limits, Renderer};
