//! The filters whose answer in minijinja is not jinja2's, and those it lacks.

use std::borrow::Cow;

use minijinja::value::{from_args, Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use crate::budget::check_time;
use crate::{dumps, python};

pub fn add_to(env: &mut Environment<'static>) {
    env.add_filter("tojson", tojson);
    env.add_filter("string", |state: &State, value: &Value| python::str(state, value));
    env.add_filter("trim", trim);
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_filter("join", join);
    env.add_filter("indent", indent);
    env.add_filter("wordcount", |state: &State, value: &Value| -> Result<usize, Error> {
        Ok(python::str(state, value)?.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).count())
    });
}

/// An argument that may be given by place or by name.
fn argument(place: Option<&Value>, kwargs: &Kwargs, name: &str) -> Result<Option<Value>, Error> {
    match place {
        Some(value) => Ok(Some(value.clone())),
        None => kwargs.get(name),
    }
}

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`: json.dumps.
fn tojson(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let (positional, kwargs): (Rest<Value>, Kwargs) = from_args(&args)?;
    let ensure_ascii = argument(positional.first(), &kwargs, "ensure_ascii")?;
    let indent = argument(positional.get(1), &kwargs, "indent")?;
    let separators = argument(positional.get(2), &kwargs, "separators")?;
    let sort_keys = argument(positional.get(3), &kwargs, "sort_keys")?;
    kwargs.assert_all_used()?;
    let is_true = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let options = dumps::Options::new(state, is_true(ensure_ascii), indent.as_ref(), separators.as_ref(), is_true(sort_keys))?;
    dumps::dumps(state, value, &options)
}

fn text_of<'a>(state: &State, value: &'a Value) -> Result<Cow<'a, str>, Error> {
    check_time()?;
    match value.as_str() {
        Some(text) => Ok(Cow::Borrowed(text)),
        None => python::str(state, value).map(Cow::Owned),
    }
}

fn trim(state: &State, value: &Value, chars: Option<Value>) -> Result<Value, Error> {
    let chars = chars.filter(|chars| !chars.is_none());
    let set = chars.as_ref().map(|chars| text_of(state, chars)).transpose()?;
    Ok(Value::from(python::strip(&text_of(state, value)?, set.as_deref())))
}

fn default(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (other, boolean, kwargs): (Option<Value>, Option<Value>, Kwargs) = from_args(&args)?;
    let other = argument(other.as_ref(), &kwargs, "default_value")?.unwrap_or_else(|| Value::from(""));
    let boolean = argument(boolean.as_ref(), &kwargs, "boolean")?.is_some_and(|value| value.is_true());
    kwargs.assert_all_used()?;
    Ok(if value.is_undefined() || (boolean && !value.is_true()) { other } else { value.clone() })
}

/// What is no number is the default, 0; minijinja makes it an error.
fn int(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (fallback, base, kwargs): (Option<Value>, Option<Value>, Kwargs) = from_args(&args)?;
    let fallback = argument(fallback.as_ref(), &kwargs, "default")?.unwrap_or_else(|| Value::from(0));
    let base = argument(base.as_ref(), &kwargs, "base")?.map(u32::try_from).transpose()?;
    kwargs.assert_all_used()?;
    let base = base.filter(|base| (2..=36).contains(base)).unwrap_or(10);
    let none = Kwargs::from_iter(Vec::<(String, Value)>::new());
    Ok(minijinja::filters::int(state, value, Some(fallback.clone()), Some(base), none).unwrap_or(fallback))
}

fn float(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (fallback, kwargs): (Option<Value>, Kwargs) = from_args(&args)?;
    let fallback = argument(fallback.as_ref(), &kwargs, "default")?.unwrap_or_else(|| Value::from(0.0));
    kwargs.assert_all_used()?;
    let none = Kwargs::from_iter(Vec::<(String, Value)>::new());
    Ok(minijinja::filters::float(state, value, Some(fallback.clone()), none).unwrap_or(fallback))
}

fn join(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (joiner, attribute, kwargs): (Option<Value>, Option<Value>, Kwargs) = from_args(&args)?;
    let joiner = argument(joiner.as_ref(), &kwargs, "d")?.map_or(Ok(String::new()), |joiner| python::str(state, &joiner))?;
    let attribute = argument(attribute.as_ref(), &kwargs, "attribute")?;
    kwargs.assert_all_used()?;
    let mut out = String::new();
    for (index, item) in value.try_iter()?.enumerate() {
        let item = match &attribute {
            Some(name) => item_attribute(&item, name)?,
            None => item,
        };
        let text = text_of(state, &item)?;
        state.consume_fuel((joiner.len() + text.len()) as u64 / 64 + 1)?;
        if index > 0 {
            out.push_str(&joiner);
        }
        out.push_str(&text);
    }
    Ok(Value::from(out))
}

/// `a.b.0` as the filters with `attribute=` read it.
fn item_attribute(item: &Value, path: &Value) -> Result<Value, Error> {
    let Some(names) = path.as_str() else { return item.get_item(path) };
    let mut found = item.clone();
    for name in names.split('.') {
        found = match name.parse::<usize>() {
            Ok(index) => found.get_item_by_index(index)?,
            Err(_) => found.get_attr(name)?,
        };
    }
    Ok(found)
}

/// `indent(s, width=4, first=False, blank=False)`; unlike minijinja's, a line end at the end stays and the width may be text.
fn indent(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (positional, kwargs): (Rest<Value>, Kwargs) = from_args(&args)?;
    if positional.len() > 3 {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let width = argument(positional.first(), &kwargs, "width")?;
    let first = argument(positional.get(1), &kwargs, "first")?.is_some_and(|value| value.is_true());
    let blank = argument(positional.get(2), &kwargs, "blank")?.is_some_and(|value| value.is_true());
    kwargs.assert_all_used()?;
    let margin = match width {
        None => "    ".to_string(),
        Some(width) if width.kind() == ValueKind::String => python::str(state, &width)?,
        Some(width) => " ".repeat(i64::try_from(width)?.clamp(0, 1_000) as usize),
    };
    let text = text_of(state, value)?;
    // The line end that jinja2 adds makes the last line one as well, also when it is empty.
    let with_end = format!("{text}\n");
    let lines = python::lines(&with_end, false);
    state.consume_fuel((with_end.len() + lines.len() * margin.len()) as u64 / 64)?;
    let mut out = String::with_capacity(with_end.len() + lines.len() * margin.len());
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if if index == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&margin);
        }
        out.push_str(line);
    }
    Ok(Value::from(out))
}
