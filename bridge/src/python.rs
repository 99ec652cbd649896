//! Python's `str()` and `repr()`, and the methods of `str`, `dict` and `list` where minijinja's own set (pycompat) lacks one
//! or answers differently.

use std::fmt::Write;

use minijinja::value::{from_args, Kwargs, Rest, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use crate::budget::{check_time, Meter};

/// Containers nested deeper than this are not printed; a template can build any depth, and printing recurses.
const MAX_DEPTH: usize = 200;

/// `str(value)`: what `{{ value }}` prints.
pub fn str(state: &State, value: &Value) -> Result<String, Error> {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => Ok(text.to_string()),
        (_, ValueKind::Undefined) => Ok(String::new()),
        _ => {
            let mut out = String::new();
            let mut meter = Meter::serializing(state);
            write_repr(&mut out, value, 0, &mut meter)?;
            meter.step(out.len())?;
            Ok(out)
        }
    }
}

/// `repr(x)` of a float: the shortest digits that read back to the same number, in exponent form below 1e-4 and from 1e16.
pub fn float(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{x:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("exponent form has an e");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{x}");
    if plain.contains('.') { plain } else { plain + ".0" }
}

fn write_repr(out: &mut String, value: &Value, depth: usize, meter: &mut Meter) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        let message = format!("value is nested deeper than {MAX_DEPTH} levels");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    meter.step(out.len())?;
    match value.kind() {
        ValueKind::String => write_quoted(out, value.as_str().unwrap_or_default()),
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(x) => out.push_str(&float(x)),
            Err(_) => write!(out, "{value}").expect("writing to a string"),
        },
        ValueKind::Seq => {
            let tuple = value.is_tuple();
            out.push(if tuple { '(' } else { '[' });
            for (index, item) in value.try_iter()?.enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &item, depth + 1, meter)?;
            }
            if tuple && value.len() == Some(1) {
                out.push(',');
            }
            out.push(if tuple { ')' } else { ']' });
        }
        ValueKind::Map if value.as_object().is_some_and(|object| object.enumerator_len().is_some()) => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &key, depth + 1, meter)?;
                out.push_str(": ");
                write_repr(out, &value.get_item(&key)?, depth + 1, meter)?;
            }
            out.push('}');
        }
        _ => write!(out, "{value}").expect("writing to a string"),
    }
    Ok(())
}

fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c == quote => {
                out.push('\\');
                out.push(c);
            }
            _ if is_printable(c) => out.push(c),
            _ => match c as u32 {
                code @ 0..=0xff => write!(out, "\\x{code:02x}").expect("writing to a string"),
                code @ 0x100..=0xffff => write!(out, "\\u{code:04x}").expect("writing to a string"),
                code => write!(out, "\\U{code:08x}").expect("writing to a string"),
            },
        }
    }
    out.push(quote);
}

/// `str.isprintable` but for unassigned characters: not a control, a format character, a separator other than the space or
/// for private use (Unicode categories Cc, Cf, Zs, Zl, Zp, Co).
fn is_printable(c: char) -> bool {
    !(c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c as u32,
            0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2 | 0x180e | 0x200b..=0x200f
            | 0x2028..=0x202e | 0x2060..=0x2064 | 0x2066..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff9..=0xfffb
            | 0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0001
            | 0xe0020..=0xe007f | 0xf0000..=0xffffd | 0x100000..=0x10fffd))
}

/// `str.isspace`: Rust's white space and the four separators of ASCII that Unicode does not count.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

#[derive(Clone, Copy)]
enum Ends {
    Both,
    Left,
    Right,
}

fn trim_ends<'a>(text: &'a str, chars: Option<&str>, ends: Ends) -> &'a str {
    let drop = |c: char| chars.map_or_else(|| is_space(c), |set| set.contains(c));
    match ends {
        Ends::Both => text.trim_matches(drop),
        Ends::Left => text.trim_start_matches(drop),
        Ends::Right => text.trim_end_matches(drop),
    }
}

/// `str.strip`.
pub fn strip<'a>(text: &'a str, chars: Option<&str>) -> &'a str {
    trim_ends(text, chars, Ends::Both)
}

/// minijinja asks here for every method that a value does not have itself.
pub fn call_method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    check_time()?;
    let ours = match value.kind() {
        ValueKind::String => string_method(state, value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Seq => sequence_method(state, value, method, args)?,
        ValueKind::Map if method == "copy" => Some(value.clone()),
        _ => None,
    };
    match ours {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// The methods that differ from pycompat's; nothing for the others. Methods that can return more than they were given pay
/// for it before they make it.
fn string_method(state: &State, text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&Value>,) = from_args(args)?;
            let chars = optional_str(chars)?;
            let ends = match method {
                "strip" => Ends::Both,
                "lstrip" => Ends::Left,
                _ => Ends::Right,
            };
            Value::from(trim_ends(text, chars, ends))
        }
        "split" | "rsplit" => split_method(state, text, method == "rsplit", args)?,
        "splitlines" => {
            let (keep, kwargs): (Option<bool>, Kwargs) = from_args(args)?;
            let keep = keep.or(kwargs.get("keepends")?).unwrap_or(false);
            kwargs.assert_all_used()?;
            let lines = lines(text, keep);
            state.consume_fuel(lines.len() as u64)?;
            Value::from(lines.into_iter().map(Value::from).collect::<Vec<_>>())
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            if separator.is_empty() {
                return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
            }
            let parts = match method {
                "partition" => text.split_once(separator).map(|(a, b)| [a, separator, b]).unwrap_or([text, "", ""]),
                _ => text.rsplit_once(separator).map(|(a, b)| [a, separator, b]).unwrap_or(["", "", text]),
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            let mut joined = String::new();
            for (index, item) in items.try_iter()?.enumerate() {
                let Some(item) = item.as_str() else {
                    let message = format!("sequence item {index}: expected str instance, {} found", item.kind());
                    return Err(Error::new(ErrorKind::InvalidOperation, message));
                };
                state.consume_fuel((text.len() + item.len()) as u64 / 64)?;
                if index > 0 {
                    joined.push_str(text);
                }
                joined.push_str(item);
            }
            Value::from(joined)
        }
        "index" | "rindex" => {
            let (what,): (&str,) = from_args(args)?;
            let found = if method == "index" { text.find(what) } else { text.rfind(what) };
            match found {
                Some(at) => Value::from(text[..at].chars().count()),
                None => return Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
            }
        }
        "format" if has_huge_width(text) => {
            return Err(Error::new(ErrorKind::InvalidOperation, "a width in the format has too many digits"));
        }
        "ljust" | "rjust" | "center" | "zfill" => {
            let (width, fill): (i64, Option<&str>) = from_args(args)?;
            pad(state, text, method, width, fill.unwrap_or(" "))?
        }
        "title" => Value::from(title(text)),
        "swapcase" => Value::from(text.chars().fold(String::new(), |mut out, c| {
            if c.is_uppercase() { out.extend(c.to_lowercase()) } else { out.extend(c.to_uppercase()) }
            out
        })),
        "casefold" => Value::from(text.to_lowercase()),
        "istitle" => Value::from(is_title(text)),
        "isdecimal" => Value::from(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())),
        "isspace" => Value::from(!text.is_empty() && text.chars().all(is_space)),
        "isprintable" => Value::from(text.chars().all(is_printable)),
        _ => return Ok(None),
    }))
}

fn optional_str(value: Option<&Value>) -> Result<Option<&str>, Error> {
    match value {
        None => Ok(None),
        Some(value) if value.is_none() => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text)),
            None => Err(Error::new(ErrorKind::InvalidOperation, format!("expected str, not {}", value.kind()))),
        },
    }
}

/// `split(sep=None, maxsplit=-1)` and its twin from the right.
fn split_method(state: &State, text: &str, from_right: bool, args: &[Value]) -> Result<Value, Error> {
    let (positional, kwargs): (Rest<Value>, Kwargs) = from_args(args)?;
    if positional.len() > 2 {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let separator: Option<Value> = positional.first().cloned().or(kwargs.get("sep")?);
    let limit: Option<i64> = match positional.get(1) {
        Some(limit) => Some(i64::try_from(limit.clone())?),
        None => kwargs.get("maxsplit")?,
    };
    kwargs.assert_all_used()?;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    // A piece of a byte becomes a value of many: what is counted here is what the pieces take.
    let parts = |pieces: Vec<&str>| -> Result<Value, Error> {
        state.consume_fuel(pieces.len() as u64)?;
        Ok(Value::from(pieces.into_iter().map(Value::from).collect::<Vec<_>>()))
    };
    match optional_str(separator.as_ref())? {
        Some("") => Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        Some(separator) if from_right => {
            let mut pieces: Vec<_> = text.rsplitn(limit.saturating_add(1), separator).collect();
            pieces.reverse();
            parts(pieces)
        }
        Some(separator) => parts(text.splitn(limit.saturating_add(1), separator).collect()),
        None => parts(split_at_space(text, from_right, limit)),
    }
}

/// Words between runs of white space; the piece after the last allowed cut keeps its inner white space.
fn split_at_space(text: &str, from_right: bool, limit: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = trim_ends(text, None, if from_right { Ends::Right } else { Ends::Left });
    while !rest.is_empty() {
        if pieces.len() == limit {
            pieces.push(rest);
            break;
        }
        let cut = if from_right {
            rest.rfind(is_space).map(|at| at + rest[at..].chars().next().map_or(0, char::len_utf8))
        } else {
            rest.find(is_space)
        };
        match (cut, from_right) {
            (Some(at), false) => {
                pieces.push(&rest[..at]);
                rest = trim_ends(&rest[at..], None, Ends::Left);
            }
            (Some(at), true) => {
                pieces.push(&rest[at..]);
                rest = trim_ends(&rest[..at], None, Ends::Right);
            }
            (None, _) => {
                pieces.push(rest);
                break;
            }
        }
    }
    if from_right {
        pieces.reverse();
    }
    pieces
}

/// Every line end that Python knows, with `\r\n` as one.
pub fn lines(text: &str, keep: bool) -> Vec<&str> {
    let is_end = |c: char| {
        matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_end).unwrap_or(rest.len());
        let after = match rest[end..].chars().next() {
            Some('\r') if rest[end..].starts_with("\r\n") => end + 2,
            Some(c) => end + c.len_utf8(),
            None => end,
        };
        lines.push(&rest[..if keep { after } else { end }]);
        rest = &rest[after..];
    }
    lines
}

fn pad(state: &State, text: &str, method: &str, width: i64, fill: &str) -> Result<Value, Error> {
    let mut fills = fill.chars();
    let (Some(fill), None) = (fills.next(), fills.next()) else {
        return Err(Error::new(ErrorKind::InvalidOperation, "the fill character must be exactly one character long"));
    };
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(text.chars().count());
    state.consume_fuel(missing as u64 / 16)?;
    let run = |n: usize, c: char| std::iter::repeat_n(c, n).collect::<String>();
    Ok(Value::from(match method {
        "ljust" => format!("{text}{}", run(missing, fill)),
        "rjust" => format!("{}{text}", run(missing, fill)),
        "center" => {
            // CPython puts the odd one on the left when the width is odd as well.
            let left = missing / 2 + (missing & usize::try_from(width).unwrap_or(0) & 1);
            format!("{}{text}{}", run(left, fill), run(missing - left, fill))
        }
        _ => {
            let (sign, digits) = match text.chars().next() {
                Some('+' | '-') => text.split_at(1),
                _ => ("", text),
            };
            format!("{sign}{}{digits}", run(missing, '0'))
        }
    }))
}

/// Every run of letters begins in upper case: `it's` becomes `It'S`.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_alphabetic();
    }
    out
}

/// A width or precision of more than five digits: text of that length would be made before anybody pays for it.
fn has_huge_width(format: &str) -> bool {
    format.split('{').skip(1).any(|field| {
        let spec = field.split('}').next().unwrap_or_default();
        spec.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 5)
    })
}

fn is_title(text: &str) -> bool {
    let mut cased = false;
    let mut inside = false;
    for c in text.chars() {
        match (c.is_uppercase(), c.is_lowercase(), inside) {
            (true, _, true) | (_, true, false) => return false,
            (upper, lower, _) => {
                inside = upper || lower;
                cased |= inside;
            }
        }
    }
    cased
}

fn sequence_method(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "copy" => value.clone(),
        "index" => {
            let (what,): (&Value,) = from_args(args)?;
            state.consume_fuel(value.len().unwrap_or(0) as u64)?;
            match value.try_iter()?.position(|item| item == *what) {
                Some(at) => Value::from(at),
                None => return Err(Error::new(ErrorKind::InvalidOperation, "value is not in list")),
            }
        }
        "count" => {
            let (what,): (&Value,) = from_args(args)?;
            state.consume_fuel(value.len().unwrap_or(0) as u64)?;
            Value::from(value.try_iter()?.filter(|item| item == what).count())
        }
        _ => return Ok(None),
    }))
}
