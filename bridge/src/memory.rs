//! What a rendering may allocate. minijinja charges fuel for what one of its operations made after it made it, so a single `~`
//! of a value that holds another one twice, which holds another one twice, would fill the machine before anybody is asked to
//! pay. Only the allocator sees that in time. It cannot fail a rendering, because allocating must not unwind; it can only
//! hand over to whoever ends the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

const UNMETERED: i64 = i64::MAX;

thread_local! {
    /// Bytes this thread may still allocate.
    static LEFT: Cell<i64> = const { Cell::new(UNMETERED) };
}

/// A `fn()` or null.
static OVERRUN: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

pub fn on_overrun(handler: Option<extern "C" fn()>) {
    OVERRUN.store(handler.map_or(ptr::null_mut(), |handler| handler as *mut ()), Ordering::Release);
}

/// While this lives, the thread has `bytes` to allocate; what it frees it may use again.
pub struct Allowance(());

impl Allowance {
    pub fn start(bytes: u64) -> Allowance {
        LEFT.set(i64::try_from(bytes).unwrap_or(UNMETERED).min(UNMETERED - 1));
        Allowance(())
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        LEFT.set(UNMETERED);
    }
}

/// False: there is no such memory for this thread, and whoever should have ended the process for that did not.
fn take(bytes: usize) -> bool {
    let left = LEFT.get();
    if left == UNMETERED {
        return true;
    }
    let left = left.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    if left >= 0 {
        LEFT.set(left);
        return true;
    }
    LEFT.set(UNMETERED); // the handler may come back here
    let handler = OVERRUN.load(Ordering::Acquire);
    if !handler.is_null() {
        // SAFETY: on_overrun() stored a function of this type.
        let handler: extern "C" fn() = unsafe { std::mem::transmute(handler) };
        handler();
    }
    false
}

fn give_back(bytes: usize) {
    let left = LEFT.get();
    if left != UNMETERED {
        LEFT.set(left.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX)).min(UNMETERED - 1));
    }
}

struct Metered;

#[global_allocator]
static ALLOCATOR: Metered = Metered;

// SAFETY: every block is the system allocator's; a null pointer is an allocation that failed.
unsafe impl GlobalAlloc for Metered {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if take(layout.size()) { System.alloc(layout) } else { ptr::null_mut() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if take(layout.size()) { System.alloc_zeroed(layout) } else { ptr::null_mut() }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        System.dealloc(block, layout);
        give_back(layout.size());
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size) {
            return ptr::null_mut();
        }
        let moved = System.realloc(block, layout, size);
        if !moved.is_null() {
            give_back(layout.size());
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_may_be_taken_again() {
        const BYTES: i64 = 1 << 20;
        let _allowance = Allowance::start(BYTES as u64);
        for _ in 0..100 {
            let mut text = String::with_capacity(1 << 18);
            text.push_str("grows");
            text.reserve(1 << 19);
            assert!(LEFT.get() <= BYTES - (1 << 19));
        }
        assert_eq!(LEFT.get(), BYTES);
    }
}
