//! The C functions of `include/gezel_bridge.h`. Everything unsafe is here: pointers in, pointers out.

use std::any::Any;
use std::ffi::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

use crate::memory;
use crate::renderer::{Failure, FailureKind, Limits, Renderer};

#[repr(C)]
pub struct GezelText {
    data: *mut c_char,
    size: usize,
}

impl GezelText {
    const EMPTY: GezelText = GezelText { data: ptr::null_mut(), size: 0 };

    fn new(text: String) -> GezelText {
        if text.is_empty() {
            return GezelText::EMPTY;
        }
        let bytes = text.into_bytes().into_boxed_slice();
        let size = bytes.len();
        GezelText { data: Box::into_raw(bytes).cast(), size }
    }
}

#[repr(C)]
pub struct GezelTemplateError {
    kind: i32,
    line: u32,
    message: GezelText,
}

impl From<Failure> for GezelTemplateError {
    fn from(failure: Failure) -> GezelTemplateError {
        GezelTemplateError {
            kind: failure.kind as i32,
            line: failure.line,
            message: GezelText::new(failure.message),
        }
    }
}

/// A null pointer stands for empty text, as an empty `std::string_view` may have one.
unsafe fn text<'a>(data: *const c_char, size: usize, what: &str) -> Result<&'a str, Failure> {
    if data.is_null() || size == 0 {
        return Ok("");
    }
    std::str::from_utf8(std::slice::from_raw_parts(data.cast(), size)).map_err(|error| {
        let kind = if what == "template" { FailureKind::Syntax } else { FailureKind::Context };
        Failure::new(kind, format!("the {what} is not UTF-8: bad byte at offset {}", error.valid_up_to()))
    })
}

fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(Failure::new(FailureKind::Panic, format!("panic while rendering: {}", panic_text(&*panic))))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown reason")
}

unsafe fn report<T>(result: Result<T, Failure>, error: *mut GezelTemplateError) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(failure) => {
            if !error.is_null() {
                error.write(failure.into());
            }
            None
        }
    }
}

#[no_mangle]
pub extern "C" fn gezel_template_default_limits() -> Limits {
    Limits::default()
}

#[no_mangle]
pub extern "C" fn gezel_template_on_overrun(handler: Option<extern "C" fn()>) {
    memory::on_overrun(handler);
}

/// # Safety
/// `source` points to `source_size` bytes; `limits` and `error` are null or valid.
#[no_mangle]
pub unsafe extern "C" fn gezel_template_compile(
    source: *const c_char,
    source_size: usize,
    limits: *const Limits,
    error: *mut GezelTemplateError,
) -> *mut Renderer {
    let limits = limits.as_ref().copied().unwrap_or_default();
    let compiled = guarded(|| Renderer::compile(text(source, source_size, "template")?, limits));
    report(compiled, error).map_or(ptr::null_mut(), |renderer| Box::into_raw(Box::new(renderer)))
}

/// # Safety
/// `handle` came from `gezel_template_compile` and was not freed; `context` points to `context_size` bytes; `out` and
/// `error` are null or valid.
#[no_mangle]
pub unsafe extern "C" fn gezel_template_render(
    handle: *const Renderer,
    context: *const c_char,
    context_size: usize,
    local_seconds: i64,
    out: *mut GezelText,
    error: *mut GezelTemplateError,
) -> bool {
    let rendered = guarded(|| {
        let renderer = handle
            .as_ref()
            .ok_or_else(|| Failure::new(FailureKind::Runtime, "no template was given".into()))?;
        renderer.render(text(context, context_size, "context")?, local_seconds)
    });
    match report(rendered, error) {
        Some(rendered) => {
            if !out.is_null() {
                out.write(GezelText::new(rendered));
            }
            true
        }
        None => false,
    }
}

/// # Safety
/// `handle` is null or came from `gezel_template_compile` and was not freed before.
#[no_mangle]
pub unsafe extern "C" fn gezel_template_free(handle: *mut Renderer) {
    if !handle.is_null() {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(handle))));
    }
}

/// # Safety
/// `text` is null or points to a text that the bridge filled in and nobody freed.
#[no_mangle]
pub unsafe extern "C" fn gezel_text_free(text: *mut GezelText) {
    let Some(text) = text.as_mut() else { return };
    if !text.data.is_null() {
        drop(Box::from_raw(ptr::slice_from_raw_parts_mut(text.data.cast::<u8>(), text.size)));
    }
    *text = GezelText::EMPTY;
}
