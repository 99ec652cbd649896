//! A compiled template, what one rendering of it may cost, and how it fails.

use std::fmt;
use std::io;
use std::thread;

use minijinja::{Environment, Error, ErrorKind, Value};

use crate::budget::Deadline;
use crate::memory::Allowance;
use crate::{clock, environment, idioms};

const NAME: &str = "chat";
const COMPILE_STACK_PER_BYTE: usize = 2_048;

/// `gezel_template_limits` of the C header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub source_bytes: u64,
    pub context_bytes: u64,
    pub output_bytes: u64,
    pub fuel: u64,
    pub fuel_per_kib: u64,
    pub memory_bytes: u64,
    pub memory_per_kib: u64,
}

impl Default for Limits {
    /// The templates in the field have up to 17 KB. For a thousand messages of 300 KB the hungriest of them, whose work grows
    /// with the square of the messages, takes ten million units, and most take a few hundred thousand. Eight million are a
    /// sixth of a second, and at most half a GiB. Memory is twice that, so that whoever can be stopped by fuel is: that costs
    /// one request, memory costs the process.
    fn default() -> Limits {
        Limits {
            source_bytes: 128 << 10,
            context_bytes: 256 << 20,
            output_bytes: 256 << 20,
            fuel: 8_000_000,
            fuel_per_kib: 32_768,
            memory_bytes: 1 << 30,
            memory_per_kib: 16 << 10,
        }
    }
}

/// `gezel_template_error_kind` of the C header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum FailureKind {
    Syntax = 1,
    Undefined = 2,
    Raised = 3,
    Limit = 4,
    Context = 5,
    Runtime = 6,
    Panic = 7,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: FailureKind,
    pub line: u32,
    pub message: String,
}

impl Failure {
    pub fn new(kind: FailureKind, message: String) -> Failure {
        Failure { kind, line: 0, message }
    }
}

/// The source of an error made by `raise_exception`: the message is the template's own and is handed on unchanged.
#[derive(Debug)]
pub struct Raised;

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("raised by the template")
    }
}

impl std::error::Error for Raised {}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        // Errors of an included part or a macro come wrapped; the innermost says what happened and where.
        let mut innermost = &error;
        let mut raised = false;
        let mut next = std::error::Error::source(innermost);
        while let Some(source) = next {
            raised |= source.is::<Raised>();
            if let Some(inner) = source.downcast_ref::<Error>() {
                innermost = inner;
            }
            next = source.source();
        }
        let kind = match innermost.kind() {
            _ if raised => FailureKind::Raised,
            ErrorKind::SyntaxError | ErrorKind::BadEscape => FailureKind::Syntax,
            ErrorKind::UndefinedError
            | ErrorKind::UnknownFilter
            | ErrorKind::UnknownTest
            | ErrorKind::UnknownFunction
            | ErrorKind::UnknownMethod => FailureKind::Undefined,
            ErrorKind::OutOfFuel => FailureKind::Limit,
            _ if innermost.detail().is_some_and(|detail| detail.contains("recursion limit")) => FailureKind::Limit,
            _ => FailureKind::Runtime,
        };
        let message = match innermost.detail() {
            Some(detail) if raised => detail.to_string(),
            Some(detail) => format!("{}: {detail}", innermost.kind()),
            None => innermost.kind().to_string(),
        };
        Failure { kind, line: innermost.line().unwrap_or(0) as u32, message }
    }
}

pub struct Renderer {
    environment: Environment<'static>,
    limits: Limits,
}

impl Renderer {
    pub fn compile(source: &str, limits: Limits) -> Result<Renderer, Failure> {
        if source.len() as u64 > limits.source_bytes {
            return Err(Failure::new(
                FailureKind::Limit,
                format!("the template has {} bytes; at most {} are allowed", source.len(), limits.source_bytes),
            ));
        }
        // The parser and the code generator recurse as deep as an expression is long (`a+a+a`…) or an `elif` chain has
        // branches, so they get a stack that is deep enough for the longest. It is only used as far as it is needed.
        let stack = (source.len() + 1) * COMPILE_STACK_PER_BYTE + (4 << 20);
        thread::scope(|scope| {
            let compile = move || {
                let mut environment = environment::build();
                environment.add_template_owned(NAME, idioms::rewrite(source)?)?;
                Ok(Renderer { environment, limits })
            };
            match thread::Builder::new().name("gezel-template".into()).stack_size(stack).spawn_scoped(scope, compile) {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(error) => {
                    Err(Failure::new(FailureKind::Limit, format!("no stack of {stack} bytes for the template: {error}")))
                }
            }
        })
    }

    pub fn render(&self, context: &str, local_seconds: i64) -> Result<String, Failure> {
        if context.len() as u64 > self.limits.context_bytes {
            return Err(Failure::new(
                FailureKind::Limit,
                format!("the context has {} bytes; at most {} are allowed", context.len(), self.limits.context_bytes),
            ));
        }
        let variables = parse_context(context)?;
        let now = Value::from_function(move |format: &str| clock::strftime(format, local_seconds));
        let root = Value::from_pairs(variables.into_iter().chain([(Value::from("strftime_now"), now)]));

        let kib = context.len() as u64 / 1_024 + 1;
        let fuel = self.limits.fuel.saturating_add(kib.saturating_mul(self.limits.fuel_per_kib));
        // Fuel belongs to the environment; a copy shares the compiled template and differs in this number only.
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel));
        let _deadline = Deadline::start();
        // The context's own values are the caller's and were bounded by its size; from here on it is the template's doing.
        let memory = self.limits.memory_bytes.saturating_add(kib.saturating_mul(self.limits.memory_per_kib));
        let _allowance = Allowance::start(memory);
        let mut out = BoundedText { bytes: Vec::with_capacity(context.len()), limit: self.limits.output_bytes, full: false };
        let rendered = environment.get_template(NAME)?.render_captured_to(root, &mut out).map(drop);
        if out.full {
            return Err(Failure::new(
                FailureKind::Limit,
                format!("the rendered prompt has more than {} bytes", self.limits.output_bytes),
            ));
        }
        rendered.map_err(|error| {
            let mut failure = Failure::from(error);
            if failure.kind == FailureKind::Limit {
                failure.message = format!("{} (the limit is {fuel} units of work)", failure.message);
            }
            failure
        })?;
        String::from_utf8(out.bytes)
            .map_err(|_| Failure::new(FailureKind::Runtime, "the rendered prompt is not UTF-8".into()))
    }
}

/// Collects the output and refuses what goes past the limit.
struct BoundedText {
    bytes: Vec<u8>,
    limit: u64,
    full: bool,
}

impl io::Write for BoundedText {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if (self.bytes.len() + piece.len()) as u64 > self.limit {
            self.full = true;
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The context's members as template values, in their order. serde_json refuses nesting deeper than 128.
fn parse_context(text: &str) -> Result<Vec<(Value, Value)>, Failure> {
    let context = |message: String| Failure::new(FailureKind::Context, message);
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(members)) => {
            Ok(members.into_iter().map(|(key, value)| (Value::from(key), to_value(value))).collect())
        }
        Ok(_) => Err(context("the context must be a JSON object".into())),
        Err(error) => Err(context(format!("the context is not JSON: {error}"))),
    }
}

fn to_value(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(value) => Value::from(value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), _, _) => Value::from(value),
            (_, Some(value), _) => Value::from(value),
            (_, _, value) => Value::from(value.unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(value) => Value::from(value),
        serde_json::Value::Array(items) => Value::from(items.into_iter().map(to_value).collect::<Vec<_>>()),
        serde_json::Value::Object(members) => {
            Value::from_pairs(members.into_iter().map(|(key, value)| (key, to_value(value))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, context: &str) -> Result<String, Failure> {
        Renderer::compile(source, Limits::default())?.render(context, 1_700_000_000)
    }

    fn failure(source: &str) -> Failure {
        render(source, "{}").expect_err("must fail")
    }

    #[test]
    fn keeps_the_order_of_keys() {
        let out = render("{% for k in o %}{{ k }}{% endfor %}{{ o | tojson }}", r#"{"o":{"z":1,"a":2,"m":3}}"#);
        assert_eq!(out.unwrap(), r#"zam{"z": 1, "a": 2, "m": 3}"#);
    }

    #[test]
    fn a_raised_exception_keeps_its_own_words_and_line() {
        let failure = failure("\n{{ raise_exception('Conversation roles must alternate') }}");
        assert_eq!(failure.kind, FailureKind::Raised);
        assert_eq!(failure.message, "Conversation roles must alternate");
        assert_eq!(failure.line, 2);
    }

    #[test]
    fn a_raise_inside_a_macro_is_still_a_raise() {
        let failure = failure("{% macro m() %}{{ raise_exception('no') }}{% endmacro %}{{ m() }}");
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Raised, "no"));
    }

    #[test]
    fn names_the_kind_of_other_failures() {
        assert_eq!(failure("{% if %}").kind, FailureKind::Syntax);
        assert_eq!(failure("{{ a.b.c }}").kind, FailureKind::Undefined);
        assert_eq!(failure("{{ 1 | nothing }}").kind, FailureKind::Undefined);
        assert_eq!(failure("{{ 1 + 'a' }}").kind, FailureKind::Runtime);
        assert_eq!(render("", "[]").unwrap_err().kind, FailureKind::Context);
        assert_eq!(render("", "{").unwrap_err().kind, FailureKind::Context);
    }

    #[test]
    fn work_memory_output_and_recursion_are_bounded() {
        let limit = FailureKind::Limit;
        let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        assert_eq!(failure(nested).kind, limit);
        let doubled = "{% set n = namespace(x='ab') %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}";
        assert_eq!(failure(doubled).kind, limit);
        assert_eq!(failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").kind, limit);
        let small = Limits { output_bytes: 10, ..Limits::default() };
        let out = Renderer::compile("{{ 'x' * 11 }}", small).unwrap().render("{}", 0);
        assert_eq!(out.unwrap_err().kind, limit);
        let small = Limits { source_bytes: 3, ..Limits::default() };
        assert_eq!(Renderer::compile("1234", small).err().unwrap().kind, limit);
    }

    #[test]
    fn long_code_compiles_and_endless_text_ends() {
        for piece in ["+a", "~a", ".a", "|d", "()", " and a", "[0]", "**a"] {
            let source = format!("{{{{ a{} }}}}", piece.repeat(8_000 / piece.len()));
            assert!(Renderer::compile(&source, Limits::default()).is_ok(), "{piece}");
        }
        let branches = format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(10_000));
        assert!(Renderer::compile(&branches, Limits::default()).is_ok());
        let doubling = "{% set n = namespace(x=[1]) %}{% for i in range(40) %}{% set n.x = [n.x, n.x] %}{% endfor %}";
        for use_it in ["{{ n.x }}", "{{ n.x | tojson }}", "{{ n.x | string }}", "{{ n.x | trim }}", "{{ [n.x] | join }}"] {
            assert_eq!(failure(&format!("{doubling}{use_it}")).kind, FailureKind::Limit, "{use_it}");
        }
    }
}
