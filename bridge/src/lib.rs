//! The one door through which Rust enters the project: llguidance's own C API, re-exported, and a C API for minijinja.
pub use llguidance::ffi::*;
