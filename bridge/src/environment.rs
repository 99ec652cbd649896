//! What a chat template finds in its world: the filters, tests, functions and methods of jinja2, with Python's answers where
//! minijinja's differ.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};

use crate::budget::check_time;
use crate::renderer::Raised;
use crate::{filters, python};

/// Nested calls and blocks of one rendering: deeper than any template in the field.
const RECURSION_LIMIT: usize = 200;

pub fn build() -> Environment<'static> {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    env.set_syntax(syntax.expect("the default delimiters are valid"));
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_recursion_limit(RECURSION_LIMIT);
    env.set_unknown_method_callback(python::call_method);
    env.set_formatter(|out, state, value| {
        check_time()?;
        match value.as_str() {
            Some(text) => out.write_str(text).map_err(Error::from),
            None => out.write_str(&python::str(state, value)?).map_err(Error::from),
        }
    });

    filters::add_to(&mut env);
    env.remove_global("debug");
    env.add_function("raise_exception", |state: &State, message: &Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, python::str(state, message)?).with_source(Raised))
    });
    env.add_function("cycler", |items: Rest<Value>| minijinja_contrib::globals::cycler(items.to_vec()));
    env.add_function("joiner", |separator: Option<Value>| {
        minijinja_contrib::globals::joiner(Some(separator.unwrap_or_else(|| Value::from(", "))))
    });

    env.add_test("sequence", |value: &Value| {
        value.is_undefined() || matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String)
    });
    env.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    env
}
