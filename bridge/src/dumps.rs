//! `json.dumps` of Python, byte for byte: its separators, its escapes, its floats.

use std::fmt::Write;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

use crate::budget::Meter;
use crate::python;

/// Values nested deeper than this are refused; a template can build any depth, and this module recurses.
const MAX_DEPTH: usize = 200;

pub struct Options {
    ensure_ascii: bool,
    indent: Option<String>, // text of one level
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

impl Options {
    pub fn new(
        state: &State,
        ensure_ascii: bool,
        indent: Option<&Value>,
        separators: Option<&Value>,
        sort_keys: bool,
    ) -> Result<Options, Error> {
        let indent = match indent {
            None => None,
            Some(value) if value.is_none() || value.is_undefined() => None,
            Some(value) => Some(match value.as_str() {
                Some(text) => text.to_string(),
                None => " ".repeat(i64::try_from(value.clone())?.clamp(0, 64) as usize),
            }),
        };
        let (item_separator, key_separator) = match separators {
            Some(pair) if !pair.is_none() => {
                let parts: Vec<Value> = pair.try_iter()?.collect();
                match parts.as_slice() {
                    [item, key] => (python::str(state, item)?, python::str(state, key)?),
                    _ => return Err(type_error("separators must be two strings")),
                }
            }
            _ if indent.is_some() => (",".to_string(), ": ".to_string()),
            _ => (", ".to_string(), ": ".to_string()),
        };
        Ok(Options { ensure_ascii, indent, item_separator, key_separator, sort_keys })
    }
}

pub fn dumps(state: &State, value: &Value, options: &Options) -> Result<String, Error> {
    let mut out = String::new();
    let mut meter = Meter::serializing(state);
    write_value(&mut out, value, options, 0, &mut meter)?;
    meter.step(out.len())?;
    Ok(out)
}

fn type_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadSerialization, message.into())
}

fn write_value(out: &mut String, value: &Value, options: &Options, depth: usize, meter: &mut Meter) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(type_error(format!("value is nested deeper than {MAX_DEPTH} levels")));
    }
    meter.step(out.len())?;
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => write_number(out, value),
        ValueKind::String => write_string(out, value.as_str().unwrap_or_default(), options),
        ValueKind::Seq => write_list(out, value, options, depth, meter)?,
        ValueKind::Map => write_map(out, value, options, depth, meter)?,
        other => return Err(type_error(format!("{other} is not JSON serializable"))),
    }
    Ok(())
}

fn write_number(out: &mut String, value: &Value) {
    match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() => match float {
            _ if float.is_nan() => out.push_str("NaN"),
            _ if float.is_infinite() => out.push_str(if float > 0.0 { "Infinity" } else { "-Infinity" }),
            _ => out.push_str(&python::float(float)),
        },
        _ => write!(out, "{value}").expect("writing to a string"),
    }
}

fn new_line(out: &mut String, options: &Options, depth: usize) {
    if let Some(indent) = &options.indent {
        out.push('\n');
        for _ in 0..depth {
            out.push_str(indent);
        }
    }
}

fn write_list(out: &mut String, value: &Value, options: &Options, depth: usize, meter: &mut Meter) -> Result<(), Error> {
    let mut first = true;
    out.push('[');
    for item in value.try_iter()? {
        if !std::mem::take(&mut first) {
            out.push_str(&options.item_separator);
        }
        new_line(out, options, depth + 1);
        write_value(out, &item, options, depth + 1, meter)?;
    }
    if !first {
        new_line(out, options, depth);
    }
    out.push(']');
    Ok(())
}

fn write_map(out: &mut String, value: &Value, options: &Options, depth: usize, meter: &mut Meter) -> Result<(), Error> {
    let mut keys: Vec<Value> = value.try_iter()?.collect();
    if options.sort_keys {
        let numbers = keys.iter().filter(|key| key.kind() != ValueKind::String).count();
        if numbers != 0 && numbers != keys.len() {
            return Err(type_error("keys of different types cannot be sorted"));
        }
        keys.sort();
    }
    let mut first = true;
    out.push('{');
    for key in keys {
        if !std::mem::take(&mut first) {
            out.push_str(&options.item_separator);
        }
        new_line(out, options, depth + 1);
        match key.kind() {
            ValueKind::String => write_string(out, key.as_str().unwrap_or_default(), options),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                out.push('"');
                write_value(out, &key, options, depth + 1, meter)?;
                out.push('"');
            }
            other => return Err(type_error(format!("keys must be str, int, float, bool or None, not {other}"))),
        }
        out.push_str(&options.key_separator);
        write_value(out, &value.get_item(&key)?, options, depth + 1, meter)?;
    }
    if !first {
        new_line(out, options, depth);
    }
    out.push('}');
    Ok(())
}

fn write_string(out: &mut String, text: &str, options: &Options) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut plain = 0; // start of the run that is copied as it is
    for (at, c) in text.char_indices() {
        let short = match c {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '\n' => Some("\\n"),
            '\r' => Some("\\r"),
            '\t' => Some("\\t"),
            '\u{8}' => Some("\\b"),
            '\u{c}' => Some("\\f"),
            _ => None,
        };
        if short.is_none() && c >= ' ' && !(options.ensure_ascii && c > '~') {
            continue;
        }
        out.push_str(&text[plain..at]);
        plain = at + c.len_utf8();
        match short {
            Some(escape) => out.push_str(escape),
            None => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").expect("writing to a string");
                }
            }
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}
