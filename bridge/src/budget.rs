//! What our own code pays for its work while it works. minijinja charges fuel for what a filter returns, after it has made it;
//! text of a value that holds another one twice, which holds another one twice, would be gone through for ever before that.

use std::cell::Cell;
use std::time::{Duration, Instant};

use minijinja::{Error, ErrorKind, State};

/// One rendering takes at most this long; real ones take milliseconds. Fuel counts work, but not every operation of the engine
/// costs what it charges, so the clock has the last word.
pub const TIME_LIMIT: Duration = Duration::from_secs(20);

const LOOKS_PER_CLOCK: u32 = 256;

thread_local! {
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
    static LOOKS: Cell<u32> = const { Cell::new(0) };
}

/// While this lives, work on this thread ends at the deadline.
pub struct Deadline(());

impl Deadline {
    pub fn start() -> Deadline {
        DEADLINE.set(Instant::now().checked_add(TIME_LIMIT));
        Deadline(())
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        DEADLINE.set(None);
    }
}

/// Called by everything of ours that a template can call.
pub fn check_time() -> Result<(), Error> {
    let looks = LOOKS.get().wrapping_add(1);
    LOOKS.set(looks);
    if looks % LOOKS_PER_CLOCK == 0 && DEADLINE.get().is_some_and(|deadline| Instant::now() > deadline) {
        return Err(Error::new(ErrorKind::OutOfFuel, format!("rendering took more than {} seconds", TIME_LIMIT.as_secs())));
    }
    Ok(())
}

/// Pays in small steps for text that grows: one unit of fuel for `bytes_per_fuel` bytes and one for two values.
pub struct Meter<'a, 'env> {
    state: &'a State<'a, 'env>,
    bytes_per_fuel: usize,
    paid_bytes: usize,
    values: u64,
}

impl<'a, 'env> Meter<'a, 'env> {
    /// Text that is made from values: serializing costs more than copying, by the measure of minijinja's own tojson.
    pub fn serializing(state: &'a State<'a, 'env>) -> Meter<'a, 'env> {
        Meter { state, bytes_per_fuel: 4, paid_bytes: 0, values: 0 }
    }

    /// Called for every value, with the length of the text so far.
    pub fn step(&mut self, length: usize) -> Result<(), Error> {
        self.values += 1;
        if self.values % 2 == 0 {
            self.state.consume_fuel(1)?;
            check_time()?;
        }
        let new = length.saturating_sub(self.paid_bytes) / self.bytes_per_fuel;
        if new > 0 {
            self.state.consume_fuel(new as u64)?;
            self.paid_bytes += new * self.bytes_per_fuel;
        }
        Ok(())
    }
}
